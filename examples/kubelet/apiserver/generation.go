package apiserver

import (
	"context"
	"net"
	"net/http"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/util/connrotation"
)

// generation is the transport for one content of the kubeconfig: address, credentials and the
// connections that use them.
type generation struct {
	kubeconfig *kubeconfig
	// err is the error of an unusable kubeconfig. Such a generation has no transport.
	err error

	http      *http.Client
	transport *http.Transport
	opened    *connrotation.ConnectionTracker
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// newGeneration builds a transport of its own, because client-go keeps its transports, with their
// certificates, for the lifetime of the process.
func newGeneration(k *kubeconfig, dial dialFunc, wrap func(http.RoundTripper) http.RoundTripper, b *budget) (*generation, error) {
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	k.rest.Dial = dial
	config, err := k.rest.TransportConfig()
	if err != nil {
		return nil, err
	}
	tls, err := transport.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	g := &generation{kubeconfig: k, opened: connrotation.NewConnectionTracker()}
	// An exec plug-in of the kubeconfig wraps the dialer, to close the connections with its old
	// credentials.
	dialer := connrotation.NewDialerWithTracker(config.DialHolder.Dial, g.opened)
	g.transport = utilnet.SetTransportDefaults(&http.Transport{
		TLSClientConfig:     tls,
		DialContext:         dialer.DialContext,
		Proxy:               k.rest.Proxy,
		MaxIdleConnsPerHost: 25,
		DisableCompression:  k.rest.DisableCompression,
	})
	wrapped, err := transport.HTTPWrappersForConfig(config, valid{bounded{g.transport, b}, k})
	if err != nil {
		return nil, err
	}
	if wrap != nil {
		wrapped = wrap(wrapped)
	}
	g.http = &http.Client{Transport: wrapped}
	return g, nil
}

// valid is a transport that fails after the end of the client certificate. A call may reach it long
// after its start: calls wait for the rate limit and between retries.
type valid struct {
	next       http.RoundTripper
	kubeconfig *kubeconfig
}

// WrappedRoundTripper returns the wrapped transport for apimachinery.
func (v valid) WrappedRoundTripper() http.RoundTripper { return v.next }

// RoundTrip implements http.RoundTripper.
func (v valid) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := v.kubeconfig.checkExpiry(time.Now()); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // required of a RoundTripper
		}
		return nil, err
	}
	return v.next.RoundTrip(r)
}

// check returns the error that calls at this time return without a connection.
func (g *generation) check(now time.Time) error {
	if g.err != nil {
		return g.err
	}
	return g.kubeconfig.checkExpiry(now)
}

// close closes all connections. Calls in progress fail.
func (g *generation) close() {
	if g.err != nil {
		return
	}
	g.opened.CloseAll()
	g.transport.CloseIdleConnections()
}

func (g *generation) forREST() *rest.Config { return rest.CopyConfig(g.kubeconfig.rest) }
