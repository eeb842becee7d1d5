package podsource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/syncloop"
)

// HTTPConfig configures an HTTPSource.
type HTTPConfig struct {
	// URL is where the pods are: http or https. Required.
	URL string
	// Header is sent with each request. nil sends none of one's own.
	Header http.Header
	// Merger gets the pods. Required.
	Merger *Merger
	// Source is the name of the source; default "http".
	Source string
	// Decoder decodes the pods. Its NodeName is required. EvictedByTaints is set:
	// only pods from files tolerate every taint.
	Decoder Decoder
	// Period is the pause between two requests; default 20 s.
	Period time.Duration
	// Client sends the requests, each of which takes at most 10 s. Its own timeout holds
	// as well. Default: a client
	// of the source's own, with the proxies that the environment names, whose idle
	// connections are closed when Run returns.
	Client *http.Client
	// Logger receives the first problems of an unbroken row. nil discards.
	Logger *slog.Logger
}

// requestTimeout bounds one request, the reading of the reply included.
const requestTimeout = 10 * time.Second

// loudProblems is how many failed requests in a row are logged before there is
// silence until the next good one.
const loudProblems = 3

// HTTPSource gets static pods from a web server, as a Pod or a PodList, and feeds a
// Merger. It is a syncloop.EventSource. Use NewHTTPSource.
type HTTPSource struct {
	cfg   HTTPConfig
	shown string // the URL without its password

	page page // only Run uses it

	mu sync.Mutex
	// kept tells that pods are in force.
	kept bool
	// failures are the bad replies since the last good one.
	failures int
	trouble  trouble
}

var _ syncloop.EventSource = (*HTTPSource)(nil)

// NewHTTPSource returns an HTTPSource and registers it with the Merger, which is
// then not ready before the server has given a good answer.
func NewHTTPSource(cfg HTTPConfig) (*HTTPSource, error) {
	f := fields.Of("podsource: HTTPConfig")
	f.Required("URL", cfg.URL)
	f.Required("Merger", cfg.Merger)
	f.Required("Decoder.NodeName", cfg.Decoder.NodeName)
	fields.Number(f, "Period", &cfg.Period, 20*time.Second)
	fields.Default(&cfg.Source, "http")
	fields.Logger(&cfg.Logger)
	if err := f.Err(); err != nil {
		return nil, err
	}
	where, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("podsource: HTTPConfig.URL: %w", withoutURL(err))
	}
	if (where.Scheme != "http" && where.Scheme != "https") || where.Host == "" {
		return nil, fmt.Errorf("podsource: HTTPConfig.URL: %q is no http or https address", where.Redacted())
	}
	cfg.Header = cfg.Header.Clone()
	cfg.Decoder.EvictedByTaints = true
	if err := cfg.Merger.Register(cfg.Source); err != nil {
		return nil, err
	}
	h := &HTTPSource{cfg: cfg, shown: where.Redacted()}
	h.page.decode = func(body []byte) ([]*v1.Pod, error) { return cfg.Decoder.DecodeAll(body, originURL+cfg.URL) }
	return h, nil
}

// Problems returns why the newest reply is not used, if it is not.
func (h *HTTPSource) Problems() []Problem {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.trouble.text == "" {
		return nil
	}
	return []Problem{h.problem()}
}

// Origin returns the URL that a pod comes from, without its password, "" if it is not in
// the newest answer.
func (h *HTTPSource) Origin(pod types.UID) string {
	pods, _ := h.cfg.Merger.Pods(h.cfg.Source)
	if slices.ContainsFunc(pods, func(p *v1.Pod) bool { return p.UID == pod }) {
		return h.shown
	}
	return ""
}

// problem is what is wrong now. Call it with mu held.
func (h *HTTPSource) problem() Problem {
	return Problem{Path: h.shown, Message: h.trouble.text, Since: h.trouble.since, KeptLastGood: h.kept}
}

// Run asks the server, at once and then once per period, until ctx is done.
func (h *HTTPSource) Run(ctx context.Context, emit func(syncloop.Event)) error {
	emit(changed(h.cfg.Source))
	client := h.cfg.Client
	if client == nil {
		client = &http.Client{Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			TLSHandshakeTimeout: requestTimeout,
			ForceAttemptHTTP2:   true,
		}}
		defer client.CloseIdleConnections()
	}
	for {
		h.poll(ctx, client, emit)
		if !run.Sleep(ctx, h.cfg.Period) {
			return nil
		}
	}
}

// poll asks once and sets the pods that follow from the answer, if any.
func (h *HTTPSource) poll(ctx context.Context, client *http.Client, emit func(syncloop.Event)) {
	body, err := h.get(ctx, client)
	if ctx.Err() != nil {
		return // the agent stops: that the request failed says nothing
	}
	var pods []*v1.Pod
	isNew := false
	if err == nil {
		pods, isNew, err = h.page.take(body)
	}
	h.report(err)
	if isNew {
		_ = h.cfg.Merger.Set(h.cfg.Source, pods, emit) // the Decoder gives each pod its identity
	}
}

// get returns the body of a good reply.
func (h *HTTPSource) get(ctx context.Context, client *http.Client) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, fmt.Errorf("no complete answer within %s", requestTimeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.cfg.URL, http.NoBody)
	if err != nil {
		return nil, withoutURL(err)
	}
	if h.cfg.Header != nil {
		req.Header = h.cfg.Header.Clone()
		// net/http takes the host from here only.
		req.Host = h.cfg.Header.Get("Host")
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, failed(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }() // only read from
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the server answers %s", resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxSize+1))
	switch {
	case err != nil:
		return nil, failed(ctx, fmt.Errorf("reading the answer: %w", err))
	case len(body) > maxSize:
		return nil, fmt.Errorf("the answer has more bytes than the limit of %d", maxSize)
	}
	return body, nil
}

// failed says why a request failed: that its time was up, or what net/http says.
func failed(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return withoutURL(err)
}

// withoutURL strips the address, which may hold a password and is known anyway.
func withoutURL(err error) error {
	if of := (*url.Error)(nil); errors.As(err, &of) {
		return of.Err
	}
	return err
}

// report publishes what is wrong, and logs what is new about it.
func (h *HTTPSource) report(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	h.mu.Lock()
	before, failures := h.trouble.text, h.failures
	h.kept = h.page.pods > 0
	h.trouble.set(text, time.Now())
	if h.failures++; err == nil {
		h.failures = 0
	}
	problem := h.problem()
	h.mu.Unlock()
	switch {
	case err == nil && before != "":
		h.cfg.Logger.Info("pods can be fetched again", "url", h.shown)
	case err == nil:
		return
	case failures < loudProblems:
		h.cfg.Logger.Info("pods cannot be fetched", "url", h.shown, "err", text, "keptLastGood", problem.KeptLastGood)
	default:
		h.cfg.Logger.Debug("pods cannot be fetched", "url", h.shown, "err", text, "keptLastGood", problem.KeptLastGood)
	}
}
