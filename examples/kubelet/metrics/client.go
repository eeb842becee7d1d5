package metrics

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Client counts calls to the API server.
type Client struct {
	calls      *prometheus.CounterVec
	took, sent *prometheus.HistogramVec
}

var (
	callSeconds = []float64{0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60}
	callBytes   = []float64{64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216}
)

func newClient(b *builder) *Client {
	return &Client{
		calls: b.counters("rest_client_requests_total", "Number of requests to the API server, by status code, method and host.", "code", "method", "host"),
		took:  b.histograms("rest_client_request_duration_seconds", "Time from a request to the start of the API server's response.", callSeconds, "verb", "host"),
		sent:  b.histograms("rest_client_request_size_bytes", "Size of request bodies.", callBytes, "verb", "host"),
	}
}

// Count returns a transport that counts the calls of next.
func (c *Client) Count(next http.RoundTripper) http.RoundTripper { return countedCalls{next, c} }

type countedCalls struct {
	next http.RoundTripper
	to   *Client
}

// WrappedRoundTripper returns the wrapped transport for apimachinery.
func (t countedCalls) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements http.RoundTripper.
func (t countedCalls) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	response, err := t.next.RoundTrip(r)
	code, host := "<error>", r.URL.Host
	if err == nil {
		code = strconv.Itoa(response.StatusCode)
	}
	t.to.calls.WithLabelValues(code, r.Method, host).Inc()
	t.to.took.WithLabelValues(r.Method, host).Observe(time.Since(began).Seconds())
	if r.ContentLength >= 0 {
		t.to.sent.WithLabelValues(r.Method, host).Observe(float64(r.ContentLength))
	}
	return response, err
}
