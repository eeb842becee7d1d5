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

// generation is what was made of one content of the kubeconfig: an address, credentials,
// and the connections with these.
type generation struct {
	kubeconfig *kubeconfig
	http       *http.Client
	transport  *http.Transport
	opened     *connrotation.ConnectionTracker
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// newGeneration builds a transport of its own: those of client-go are kept by the process
// for ever, under their certificates.
func newGeneration(k *kubeconfig, dial dialFunc, wrap func(http.RoundTripper) http.RoundTripper) (*generation, error) {
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
	// A plug-in that the kubeconfig names dials as well, to close the connections with its
	// old credentials.
	dialer := connrotation.NewDialerWithTracker(config.DialHolder.Dial, g.opened)
	g.transport = utilnet.SetTransportDefaults(&http.Transport{
		TLSClientConfig:     tls,
		DialContext:         dialer.DialContext,
		Proxy:               k.rest.Proxy,
		MaxIdleConnsPerHost: 25,
		DisableCompression:  k.rest.DisableCompression,
	})
	wrapped, err := transport.HTTPWrappersForConfig(config, g.transport)
	if err != nil {
		return nil, err
	}
	if wrap != nil {
		wrapped = wrap(wrapped)
	}
	g.http = &http.Client{Transport: wrapped}
	return g, nil
}

// close ends all connections, and with them the calls that are under way.
func (g *generation) close() {
	g.opened.CloseAll()
	g.transport.CloseIdleConnections()
}

// forREST is the configuration of a client of client-go.
func (g *generation) forREST() *rest.Config { return rest.CopyConfig(g.kubeconfig.rest) }
