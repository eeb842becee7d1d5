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
	// URL is the http or https address of the pods. Required.
	URL string
	// Header is sent with each request. Optional.
	Header http.Header
	// Merger receives the pods. Required.
	Merger *Merger
	// Source is the name of the source. Default: "http".
	Source string
	// Decoder decodes the pods. Its NodeName is required. NewHTTPSource sets EvictedByTaints,
	// because only pods from files tolerate every taint.
	Decoder Decoder
	// Period is the period of requests. Default: 20 s.
	Period time.Duration
	// Client sends the requests, each of which is limited to 10 s and to the client's own timeout.
	// Default: a client with the proxies of the environment, whose idle connections are closed
	// when Run returns.
	Client *http.Client
	// Logger receives the first problems of an uninterrupted series. Optional: without it they are
	// discarded.
	Logger *slog.Logger
}

// requestTimeout bounds one request, including the reading of the reply.
const requestTimeout = 10 * time.Second

// infoProblems is the number of failed requests in a row that are logged at level Info.
const infoProblems = 3

// HTTPSource reads static pods from a web server, as a Pod or a PodList, and passes them to a
// Merger. It is a syncloop.EventSource. Use NewHTTPSource. Run must not be called concurrently; the
// other methods are safe for concurrent use.
type HTTPSource struct {
	cfg         HTTPConfig
	redactedURL string // the URL without its password

	page page // used by Run only

	mu sync.Mutex
	// hasPods is true if pods are in force.
	hasPods bool
	// failures is the number of bad replies since the last good one.
	failures int
	trouble  trouble
}

var _ syncloop.EventSource = (*HTTPSource)(nil)

// NewHTTPSource returns an HTTPSource and registers it with the Merger, which is not ready until
// the server has sent a valid reply.
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
		return nil, fmt.Errorf("podsource: HTTPConfig.URL: %q must be an http or https URL", where.Redacted())
	}
	cfg.Header = canonical(cfg.Header)
	cfg.Decoder.EvictedByTaints = true
	if err := cfg.Merger.Register(cfg.Source); err != nil {
		return nil, err
	}
	h := &HTTPSource{cfg: cfg, redactedURL: where.Redacted()}
	h.page.decode = func(body []byte) ([]*v1.Pod, error) { return cfg.Decoder.DecodeAll(body, originURL+cfg.URL) }
	return h, nil
}

// Problems returns the reason why the newest reply is not used, if any.
func (h *HTTPSource) Problems() []Problem {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.trouble.text == "" {
		return nil
	}
	return []Problem{h.problem()}
}

// Origin returns the URL of a pod in the newest set, without its password, or "".
func (h *HTTPSource) Origin(pod types.UID) string {
	pods, _ := h.cfg.Merger.Pods(h.cfg.Source)
	if slices.ContainsFunc(pods, func(p *v1.Pod) bool { return p.UID == pod }) {
		return h.redactedURL
	}
	return ""
}

// problem returns the current problem. The caller holds mu.
func (h *HTTPSource) problem() Problem {
	return Problem{Path: h.redactedURL, Message: h.trouble.text, Since: h.trouble.since, KeptLastGood: h.hasPods}
}

// Run sends a request immediately and then once per period, until ctx is done, and returns nil.
// Failed requests are listed by Problems.
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

func (h *HTTPSource) poll(ctx context.Context, client *http.Client, emit func(syncloop.Event)) {
	body, err := h.get(ctx, client)
	if ctx.Err() != nil {
		return // the stop of the agent cancelled the request
	}
	var pods []*v1.Pod
	isNew := false
	if err == nil {
		pods, isNew, err = h.page.apply(body)
	}
	h.report(err)
	if isNew {
		_ = h.cfg.Merger.Set(h.cfg.Source, pods, emit) // the Decoder gives each pod its identity
	}
}

func (h *HTTPSource) get(ctx context.Context, client *http.Client) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, fmt.Errorf("no complete reply within %s", requestTimeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.cfg.URL, http.NoBody)
	if err != nil {
		return nil, withoutURL(err)
	}
	if h.cfg.Header != nil {
		req.Header = h.cfg.Header.Clone()
		// net/http ignores the Host header and uses this field.
		req.Host = h.cfg.Header.Get("Host")
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, requestError(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }() // a failed Close of a body that is only read is harmless
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the server returned %s", resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxSize+1))
	switch {
	case err != nil:
		return nil, requestError(ctx, fmt.Errorf("reading the reply: %w", err))
	case len(body) > maxSize:
		return nil, fmt.Errorf("the reply has more than %d bytes", maxSize)
	}
	return body, nil
}

// requestError returns the cause of a failed request: the timeout, or the error of net/http.
func requestError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return withoutURL(err)
}

// withoutURL removes the address from an error, because it may contain a password.
func withoutURL(err error) error {
	if of := (*url.Error)(nil); errors.As(err, &of) {
		return of.Err
	}
	return err
}

func (h *HTTPSource) report(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	h.mu.Lock()
	before, failures := h.trouble.text, h.failures
	h.hasPods = h.page.pods > 0
	h.trouble.set(text, time.Now())
	if h.failures++; err == nil {
		h.failures = 0
	}
	problem := h.problem()
	h.mu.Unlock()
	switch {
	case err == nil && before != "":
		h.cfg.Logger.Info("pods can be fetched again", "url", h.redactedURL)
	case err == nil:
		return
	case failures < infoProblems:
		h.cfg.Logger.Info("pods cannot be fetched", "url", h.redactedURL, "err", text, "keptLastGood", problem.KeptLastGood)
	default:
		h.cfg.Logger.Debug("pods cannot be fetched", "url", h.redactedURL, "err", text, "keptLastGood", problem.KeptLastGood)
	}
}

// canonical returns a copy whose names are in the form of Go's Header, in which Get finds them.
func canonical(in http.Header) http.Header {
	out := http.Header{}
	for name, values := range in {
		for _, value := range values {
			out.Add(name, value)
		}
	}
	return out
}
