// The faultproxy stands between a client and the API server and does to requests and watches what a test asks for:
// answers in the server's place, cuts, stalls, delays, repeats. HTTP/2 (and 1.1) with TLS on both sides; credentials pass
// through. It is controlled over plain HTTP on the loopback interface; see control.go.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"
)

type connectionKey struct{}

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "where clients connect")
	control := flag.String("control", "127.0.0.1:0", "where the test connects")
	upstream := flag.String("upstream", "", "the API server, as https://HOST:PORT")
	ca := flag.String("ca", "", "the authority that issued the API server's certificate")
	certificate := flag.String("cert", "", "the certificate shown to clients")
	key := flag.String("key", "", "its key")
	seed := flag.Uint64("seed", 1, "of the rules with a probability")
	flag.Parse()

	server, err := url.Parse(*upstream)
	if err != nil || server.Host == "" {
		log.Fatalf("--upstream %q is no address", *upstream)
	}
	pem, err := os.ReadFile(*ca)
	if err != nil {
		log.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		log.Fatalf("%s holds no certificate", *ca)
	}
	proxy := newProxy(server, &http.Transport{
		TLSClientConfig:    &tls.Config{RootCAs: roots},
		ForceAttemptHTTP2:  true,
		DisableCompression: true,
		IdleConnTimeout:    time.Minute,
	}, *seed)

	pair, err := tls.LoadX509KeyPair(*certificate, *key)
	if err != nil {
		log.Fatal(err)
	}
	socket, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	front := &http.Server{
		Handler:   proxy,
		Protocols: protocols,
		// As many streams per connection as the API server allows.
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: 100},
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connectionKey{}, c)
		},
	}
	go func() { log.Fatal(http.ListenAndServe(*control, controller{proxy})) }()
	log.Fatal(front.ServeTLS(&listener{Listener: socket, all: proxy.connections}, "", ""))
}
