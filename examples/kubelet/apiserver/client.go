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
	// Kubeconfig is the path of the file that says where the server is and who the agent
	// is. What it names by relative paths is beside it.
	Kubeconfig string
	// CertificateFile has a client certificate and its key, such as
	// kubelet-client-current.pem. As long as it is there and has not expired, it counts
	// instead of the certificate of the kubeconfig; empty means none.
	CertificateFile string
	// UserAgent is how the agent calls itself at the server.
	UserAgent string
	// ContentType is that of requests; empty means application/vnd.kubernetes.protobuf.
	// Answers may be JSON as well.
	ContentType string
	// Limits bound the calls; zero values of QPS and Burst mean 50 and 100, of Timeout 30 s.
	Limits Limits
	// Period is how often it is looked at whether the kubeconfig has changed; zero means 1 s.
	Period time.Duration
	// Dial opens connections; nil means those of the node's network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Wrap puts something around the transport of each kubeconfig, such as what counts
	// calls; nil: nothing.
	Wrap func(http.RoundTripper) http.RoundTripper
	// Logger is told when the kubeconfig changes, or cannot be used; nil discards.
	Logger *slog.Logger
}

// Limits bound the calls of a Client.
type Limits struct {
	// QPS is how many calls are begun in a second, on average; negative means no limit.
	QPS float32
	// Burst is how many are begun at once after a rest.
	Burst int
	// Timeout bounds each call but watches; negative means that nothing does.
	Timeout time.Duration
}

func (l Limits) withDefaults(d Limits) (Limits, error) {
	f := fields.Of("apiserver: Limits")
	fields.Default(&l.QPS, d.QPS)
	fields.Number(f, "Burst", &l.Burst, d.Burst)
	fields.Default(&l.Timeout, d.Timeout)
	return l, f.Err()
}

// Client makes calls of an API server. Use New. It is safe for concurrent use.
type Client struct {
	*connection
	limits  Limits
	limiter flowcontrol.RateLimiter // nil: none

	mu   sync.Mutex
	of   *generation // that of the clients below
	rest map[schema.GroupVersion]rest.Interface
}

// connection is what Clients of one kubeconfig share.
type connection struct {
	cfg     Config
	codecs  codecs
	current atomic.Pointer[generation]
	ran     atomic.Bool
}

// ErrAlreadyRun is returned by a second Run.
var ErrAlreadyRun = errors.New("apiserver: Run was called before")

// New reads the kubeconfig and checks the configuration. It does not connect. What is
// wrong with the kubeconfig is a ConfigError.
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
	g, err := c.read()
	if err != nil {
		return nil, err
	}
	c.current.Store(g)
	return c.client(limits), nil
}

func (c *connection) client(l Limits) *Client {
	out := &Client{connection: c, limits: l}
	if l.QPS > 0 {
		out.limiter = flowcontrol.NewTokenBucketRateLimiter(l.QPS, l.Burst)
	}
	return out
}

// With returns a Client over the same connections with limits of its own, such as that
// for heartbeats, which wait for nobody and soon give up. Zero values are those of c. It
// is not run.
func (c *Client) With(l Limits) (*Client, error) {
	limits, err := l.withDefaults(c.limits)
	if err != nil {
		return nil, err
	}
	return c.client(limits), nil
}

// Server is the address of the server, as the kubeconfig has it now.
func (c *connection) Server() string { return c.current.Load().kubeconfig.rest.Host }

// Expires is when the client certificate expires; zero without one.
func (c *connection) Expires() time.Time { return c.current.Load().kubeconfig.expires }

// CloseConnections closes all connections, so that the next call opens one. It is for
// whoever has found that nothing comes back any more, such as heartbeats that failed: a
// path that is dead is left then. Calls that are under way fail; watches begin anew where
// they were.
func (c *connection) CloseConnections() { c.current.Load().close() }

// read makes a generation of the kubeconfig.
func (c *connection) read() (*generation, error) {
	k, err := readKubeconfig(c.cfg.Kubeconfig, c.cfg.CertificateFile, time.Now())
	if err != nil {
		return nil, err
	}
	k.rest.UserAgent = c.cfg.UserAgent
	g, err := newGeneration(k, c.cfg.Dial, c.cfg.Wrap)
	if err != nil {
		return nil, &ConfigError{File: c.cfg.Kubeconfig, Err: err}
	}
	return g, nil
}

// linger is how long calls of an old generation may go on, so that a watch is away for
// less than a second.
const linger = 300 * time.Millisecond

// Run follows the kubeconfig until ctx ends, and closes all connections then. It returns
// an error that wraps ErrExpired when the client certificate expires and no other one has
// come.
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
		case now := <-tick.C:
			if expires := c.Expires(); !expires.IsZero() && !now.Before(expires) {
				return fmt.Errorf("apiserver: kubeconfig %s: %w: at %s", c.cfg.Kubeconfig, ErrExpired, expires.Format(time.RFC3339))
			}
		}
		if old := f.look(c.connection); old != nil {
			retiring.Go("connections", func() {
				run.Sleep(ctx, linger)
				old.close()
			})
		}
	}
}

// follower is what is known of the files of a kubeconfig.
type follower struct {
	// seen are their stamps before they were read last; empty: they are to be read.
	seen string
	// failure is what was wrong with them, as it was logged.
	failure string
}

// look reads a kubeconfig that may have changed, and returns the generation that is in
// force no more, if so. One that cannot be used is read each time: it may lack a file that
// is not known yet.
func (f *follower) look(c *connection) (old *generation) {
	now := stamps(c.current.Load().kubeconfig.files)
	if now == f.seen && f.failure == "" {
		return nil
	}
	f.seen = now
	old, err := c.reload()
	switch {
	case err == nil:
		f.failure = ""
	case err.Error() != f.failure:
		f.failure = err.Error()
		c.cfg.Logger.Error("the kubeconfig cannot be used: the one before stays in force", "err", err)
	}
	if old != nil {
		f.seen = "" // its files may be others
		c.cfg.Logger.Info("the kubeconfig has changed", "server", c.Server())
	}
	return old
}

// reload reads the kubeconfig. It returns the generation that is in force no more, nil if
// nothing has changed.
func (c *connection) reload() (old *generation, err error) {
	g, err := c.read()
	if err != nil {
		return nil, err
	}
	if g.kubeconfig.digest == c.current.Load().kubeconfig.digest {
		return nil, nil
	}
	return c.current.Swap(g), nil
}

// restFor returns the client of a group with the address and credentials of now.
func (c *Client) restFor(gv schema.GroupVersion) (rest.Interface, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g := c.current.Load(); c.of != g {
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

// warnings takes what the server adds to its answers for people to read.
type warnings struct{ log *slog.Logger }

func (w warnings) HandleWarningHeaderWithContext(ctx context.Context, code int, _ string, text string) {
	if code == 299 && text != "" {
		w.log.DebugContext(ctx, "the API server warns", "text", text)
	}
}
