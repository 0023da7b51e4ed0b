/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for a native HTTP client: reads one event stream by the OpenSSL that it is linked with. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int read_events(SSL *tls)
{
	char buffer[65536];
	int count, events = 0;

	while ((count = SSL_read(tls, buffer, sizeof(buffer) - 1)) > 0) {
		buffer[count] = 0;
		for (const char *at = buffer; (at = strstr(at, "data: {")) != NULL; at++)
			events++;
	}
	return events;
}

/* The number of events, or a negative number; *fd is the socket's descriptor. */
__attribute__((visibility("default"))) int fetch(const char *host, int port, const char *request, int *fd)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());
	SSL *tls = SSL_new(context);
	int events = -1;

	inet_pton(AF_INET, host, &address.sin_addr);
	*fd = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(*fd, (struct sockaddr *)&address, sizeof(address)) == 0) {
		SSL_set_fd(tls, *fd);
		events = SSL_connect(tls) == 1 ? 0 : -2;
	}
	if (events == 0 && SSL_write(tls, request, strlen(request)) > 0)
		events = read_events(tls);
	SSL_free(tls);
	close(*fd);
	SSL_CTX_free(context);
	return events;
}
