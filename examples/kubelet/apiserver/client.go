package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/run"
)

// Config configures a Client. Kubeconfig and UserAgent are required.
type Config struct {
	// Kubeconfig is the path of the file with the server's address and the agent's credentials.
	// Relative paths in it are relative to its folder.
	Kubeconfig string
	// CertificateFile contains a client certificate and its key, such as
	// kubelet-client-current.pem. While it exists and has not expired, it replaces the certificate
	// of the kubeconfig. Optional.
	CertificateFile string
	// Await makes New accept a missing or unusable Kubeconfig. Calls return its error until Run has
	// read a usable one. Set it if another part writes the file.
	Await bool
	// UserAgent is the User-Agent header of requests.
	UserAgent string
	// ContentType is the content type of requests. Default: application/vnd.kubernetes.protobuf.
	// Responses may be JSON as well.
	ContentType string
	// Limits bound the calls. Defaults: QPS 50, Burst 100, Timeout 30 s.
	Limits Limits
	// Period is the period of checks for changes of the kubeconfig. Default: 1 s.
	Period time.Duration
	// Dial opens connections. Default: the node's network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Wrap wraps the transport of each version of the kubeconfig, for example to count calls.
	// Optional.
	Wrap func(http.RoundTripper) http.RoundTripper
	// Logger receives changes and errors of the kubeconfig. Default: discard.
	Logger *slog.Logger
}

// Limits bound the calls of a Client.
type Limits struct {
	// QPS is the average number of calls per second. Negative means no limit.
	QPS float32
	// Burst is the number of calls that may start at once after a pause.
	Burst int
	// Timeout bounds each call except watches. Negative means no limit.
	Timeout time.Duration
}

func (l Limits) withDefaults(d Limits) (Limits, error) {
	f := fields.Of("apiserver: Limits")
	fields.Default(&l.QPS, d.QPS)
	fields.Number(f, "Burst", &l.Burst, d.Burst)
	fields.Default(&l.Timeout, d.Timeout)
	return l, f.Err()
}

// Client calls an API server. Create it with New. It is safe for concurrent use.
type Client struct {
	*connection
	limits  Limits
	limiter flowcontrol.RateLimiter // nil without a limit

	mu   sync.Mutex
	of   *generation // generation of the clients in rest
	rest map[schema.GroupVersion]rest.Interface
}

// connection is shared by the Clients of one kubeconfig.
type connection struct {
	cfg     Config
	codecs  codecs
	budget  budget
	current atomic.Pointer[generation]
	ran     atomic.Bool
}

// ErrAlreadyRun is returned by a second Run.
var ErrAlreadyRun = errors.New("apiserver: Run was called before")

// New checks the configuration and reads the kubeconfig. It does not connect. Errors of the
// kubeconfig are ConfigErrors. An expired client certificate is no error of New, because it may be
// replaced: see Err.
func New(cfg Config) (*Client, error) {
	f := fields.Of("apiserver: Config")
	f.Required("Kubeconfig", cfg.Kubeconfig)
	f.Required("UserAgent", cfg.UserAgent)
	fields.Number(f, "Period", &cfg.Period, time.Second)
	fields.Default(&cfg.ContentType, "application/vnd.kubernetes.protobuf")
	fields.Logger(&cfg.Logger)
	if err := f.Err(); err != nil {
		return nil, err
	}
	limits, err := cfg.Limits.withDefaults(Limits{QPS: 50, Burst: 100, Timeout: 30 * time.Second})
	if err != nil {
		return nil, err
	}
	c := &connection{cfg: cfg, codecs: newCodecs()}
	if _, err := c.reload(); err != nil {
		if !cfg.Await {
			return nil, err
		}
		c.current.Store(c.awaited(err))
	}
	return c.client(limits), nil
}

// Using returns a Client with c's configuration and limits for another kubeconfig, without a
// CertificateFile. It has connections and a Run of its own.
func (c *Client) Using(kubeconfig string) (*Client, error) {
	cfg := c.cfg
	cfg.Kubeconfig, cfg.CertificateFile, cfg.Await, cfg.Limits = kubeconfig, "", false, c.limits
	return New(cfg)
}

func (c *connection) client(l Limits) *Client {
	out := &Client{connection: c, limits: l}
	if l.QPS > 0 {
		out.limiter = flowcontrol.NewTokenBucketRateLimiter(l.QPS, l.Burst)
	}
	return out
}

// With returns a Client that shares c's connections but has its own limits, such as for heartbeats,
// which must not queue and need a short timeout. Zero values of l stand for c's limits. Do not call
// Run on the result.
func (c *Client) With(l Limits) (*Client, error) {
	limits, err := l.withDefaults(c.limits)
	if err != nil {
		return nil, err
	}
	return c.client(limits), nil
}

// Kubeconfig returns the path of the kubeconfig.
func (c *connection) Kubeconfig() string { return c.cfg.Kubeconfig }

// Err returns the error that all calls return at present without a connection: an unusable
// kubeconfig (see Config.Await), or an expired client certificate (ErrExpired). Both are
// ConfigErrors. It returns nil if calls reach for the server.
func (c *connection) Err() error { return c.current.Load().check(time.Now()) }

// Server returns the address of the server in the current kubeconfig, or "" without one.
func (c *connection) Server() string { return c.current.Load().kubeconfig.rest.Host }

// Expires returns the expiry of the client certificate, or zero without one.
func (c *connection) Expires() time.Time { return c.current.Load().kubeconfig.expires }

// CloseConnections closes all connections, so that the next call opens a new one. Call it when
// responses stop, such as after failed heartbeats, to leave a dead network path. Calls in progress
// fail; watches resume where they stopped.
func (c *connection) CloseConnections() { c.current.Load().close() }

func (c *connection) read() (*kubeconfig, error) {
	return readKubeconfig(c.cfg.Kubeconfig, c.cfg.CertificateFile, time.Now())
}

// build returns the generation of a kubeconfig.
func (c *connection) build(k *kubeconfig) (*generation, error) {
	k.rest.UserAgent = c.cfg.UserAgent
	g, err := newGeneration(k, c.cfg.Dial, c.cfg.Wrap, &c.budget)
	if err != nil {
		return nil, &ConfigError{File: c.cfg.Kubeconfig, Err: err}
	}
	return g, nil
}

// awaited returns a generation without a server, for an unusable kubeconfig.
func (c *connection) awaited(err error) *generation {
	return &generation{err: err, kubeconfig: &kubeconfig{rest: &rest.Config{}, files: []string{c.cfg.Kubeconfig}}}
}

// closeDelay is the time for calls of an old generation to finish. It is short, so that watches are
// interrupted for less than a second.
const closeDelay = 300 * time.Millisecond

// Run reloads the kubeconfig when it changes, until ctx is done. It then closes all connections and
// returns nil. It continues without a usable kubeconfig and after the end of the client certificate,
// and uses the first usable one. It returns ErrAlreadyRun when called again.
func (c *Client) Run(ctx context.Context) error {
	if c.ran.Swap(true) {
		return ErrAlreadyRun
	}
	var retiring run.Group
	defer func() {
		c.CloseConnections()
		<-retiring.Idle()
	}()
	var f follower
	tick := time.NewTicker(c.cfg.Period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if old := f.poll(c.connection); old != nil {
			retiring.Go("connections", func() {
				run.Sleep(ctx, closeDelay)
				old.close()
			})
		}
	}
}

// follower detects changes of the files of a kubeconfig.
type follower struct {
	// seen are the stamps of the files at the last read. Empty forces a read.
	seen    string
	failure string
}

// poll reloads a kubeconfig that may have changed, and returns the replaced generation, if any. It
// reads an unusable kubeconfig at each call, because the stamps may lack a missing file, and another
// file may have a certificate that is still valid.
func (f *follower) poll(c *connection) (old *generation) {
	now := stamps(c.current.Load().kubeconfig.files)
	if now == f.seen && f.failure == "" && c.Err() == nil {
		return nil
	}
	f.seen = now
	old, err := c.reload()
	switch {
	case err == nil:
		err = c.Err()
	case c.current.Load().err != nil:
		c.current.Store(c.awaited(err)) // the newest error
	}
	switch {
	case err == nil:
		f.failure = ""
	case err.Error() != f.failure:
		f.failure = err.Error()
		text := "kubeconfig not usable; continuing with the previous one"
		if c.Err() != nil {
			text = "kubeconfig not usable; waiting for a usable one"
		}
		c.cfg.Logger.Error(text, "err", err)
	}
	if old != nil {
		f.seen = "" // it may name other files
		c.cfg.Logger.Info("kubeconfig changed", "server", c.Server())
	}
	return old
}

// reload reads the kubeconfig. It returns the replaced generation, or nil if the content has not
// changed. A usable generation is replaced only by another usable one.
func (c *connection) reload() (old *generation, err error) {
	k, err := c.read()
	if old = c.current.Load(); old != nil && err == nil {
		switch {
		case old.err == nil && k.digest == old.kubeconfig.digest:
			return nil, nil
		case old.check(time.Now()) == nil:
			err = k.checkExpiry(time.Now())
		}
	}
	if err != nil {
		return nil, err
	}
	g, err := c.build(k)
	if err != nil {
		return nil, err
	}
	return c.current.Swap(g), nil
}

// restFor returns the client of a group for the current generation, or Err.
func (c *Client) restFor(gv schema.GroupVersion) (rest.Interface, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.current.Load()
	if err := g.check(time.Now()); err != nil {
		return nil, err
	}
	if c.of != g {
		c.of, c.rest = g, map[schema.GroupVersion]rest.Interface{}
	}
	if r := c.rest[gv]; r != nil {
		return r, nil
	}
	cfg := c.of.forREST()
	cfg.GroupVersion, cfg.APIPath = &gv, "/apis"
	if gv.Group == "" {
		cfg.APIPath = "/api"
	}
	cfg.ContentType, cfg.AcceptContentTypes = c.cfg.ContentType, c.cfg.ContentType+",application/json"
	cfg.NegotiatedSerializer = c.codecs.negotiated
	cfg.RateLimiter, cfg.QPS = c.limiter, -1
	cfg.WarningHandlerWithContext = warnings{c.cfg.Logger}
	r, err := rest.RESTClientForConfigAndClient(cfg, c.of.http)
	if err != nil {
		return nil, fmt.Errorf("apiserver: %s: %w", gv, err)
	}
	c.rest[gv] = r
	return r, nil
}

type warnings struct{ log *slog.Logger }

func (w warnings) HandleWarningHeaderWithContext(ctx context.Context, code int, _ string, text string) {
	if code == 299 && text != "" {
		w.log.DebugContext(ctx, "warning from the API server", "text", text)
	}
}
