package cluster_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/podwright/podwright/examples/tools/testbed/tb/controlplane"
)

// front stands between one node and the API server. The server takes the node for who it
// is. It can be away for that node alone, and says of tokens that they end soon: the real
// ones last for ten minutes at least.
type front struct {
	*httptest.Server
	away atomic.Bool
}

// tokenLife is how long a token is said to last: a new one is due after 6 to 16 s.
const tokenLife = 20 * time.Second

func newFront(t *testing.T, plane controlplane.Handle) *front {
	f := &front{}
	f.Server = httptest.NewUnstartedServer(f.handler(t, plane))
	pair, err := tls.LoadX509KeyPair(plane.Certificate, plane.Key)
	require.NoError(t, err)
	ca, err := os.ReadFile(plane.CA)
	require.NoError(t, err)
	clients := x509.NewCertPool()
	require.True(t, clients.AppendCertsFromPEM(ca))
	f.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
	f.EnableHTTP2 = true
	f.Config.ErrorLog = log.New(io.Discard, "", 0) // of clients that are killed
	f.StartTLS()
	t.Cleanup(func() {
		f.CloseClientConnections()
		f.Close()
	})
	return f
}

// handler passes requests on in the name of whose certificate they come with.
func (f *front) handler(t *testing.T, plane controlplane.Handle) http.Handler {
	admin, err := clientcmd.BuildConfigFromFlags("", plane.Kubeconfig)
	require.NoError(t, err)
	credentials, err := rest.TLSConfigFor(admin)
	require.NoError(t, err)
	transport := &http.Transport{TLSClientConfig: credentials}
	t.Cleanup(transport.CloseIdleConnections)
	server, err := url.Parse(plane.URL)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(server)
			who := r.In.TLS.PeerCertificates[0].Subject
			r.Out.Header.Set("Impersonate-User", who.CommonName)
			r.Out.Header["Impersonate-Group"] = append([]string{"system:authenticated"}, who.Organization...)
			if isToken(r.In) {
				r.Out.Header.Set("Accept", "application/json")
				r.Out.Header.Del("Accept-Encoding")
			}
		},
		ModifyResponse: func(r *http.Response) error {
			if !isToken(r.Request) || r.StatusCode != http.StatusCreated {
				return nil
			}
			return shorten(r)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.away.Load() {
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	})
}

func isToken(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/token")
}

// shorten makes an answer say that its token ends soon. The token itself is as it was.
func shorten(r *http.Response) error {
	var token authv1.TokenRequest
	if err := json.NewDecoder(r.Body).Decode(&token); err != nil {
		return err
	}
	token.Status.ExpirationTimestamp = metav1.NewTime(time.Now().Add(tokenLife))
	text, err := json.Marshal(token)
	r.Body = io.NopCloser(bytes.NewReader(text))
	r.ContentLength = int64(len(text))
	r.Header.Set("Content-Length", strconv.Itoa(len(text)))
	return err
}

// leave makes the API server be away for the node, or come back.
func (f *front) leave(away bool) {
	f.away.Store(away)
	f.CloseClientConnections()
}
