#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes a certificate authority of its own and a certificate for localhost, for tests and the demo:
#
#     certs.sh FOLDER      writes ca.pem, cert.pem and key.pem into FOLDER (made if absent)
#
# The extensions are those that Python 3.13's strict verification asks for. The key of the authority is thrown away.

set -euo pipefail

if [[ $# -ne 1 ]]; then
    echo "usage: certs.sh FOLDER" >&2
    exit 2
fi
folder=$1
mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/ca.conf" <<'CONF'
[req]
prompt = no
distinguished_name = name
x509_extensions = ca
[name]
CN = gcause lab authority
[ca]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[leaf]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = DNS:localhost, IP:127.0.0.1, IP:::1
CONF

run() {
    # openssl is chatty on success; its words matter only when it fails.
    if ! openssl "$@" >"$work/openssl.log" 2>&1; then
        cat "$work/openssl.log" >&2
        echo "certs.sh: openssl $1 failed" >&2
        exit 1
    fi
}

run ecparam -name prime256v1 -genkey -noout -out "$work/ca.key"
run req -new -x509 -sha256 -days 30 -key "$work/ca.key" -config "$work/ca.conf" -out "$work/ca.pem"
run ecparam -name prime256v1 -genkey -noout -out "$work/key.pem"
run req -new -sha256 -key "$work/key.pem" -subj /CN=localhost -config "$work/ca.conf" -out "$work/leaf.csr"
run x509 -req -sha256 -days 30 -in "$work/leaf.csr" -CA "$work/ca.pem" -CAkey "$work/ca.key" \
    -set_serial "0x$(openssl rand -hex 8)" -extfile "$work/ca.conf" -extensions leaf -out "$work/cert.pem"
install -m 644 "$work/ca.pem" "$work/cert.pem" "$folder/"
install -m 600 "$work/key.pem" "$folder/"
