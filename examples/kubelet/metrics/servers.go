package metrics

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Servers counts requests to the kubelet's own servers.
type Servers struct {
	requests *prometheus.CounterVec
	took     *prometheus.HistogramVec
	inFlight *prometheus.GaugeVec
	sessions *prometheus.CounterVec
}

var requestLabels = []string{"method", "path", "server_type", "long_running"}

func newServers(b *builder) *Servers {
	return &Servers{
		requests: b.counters("kubelet_http_requests_total", "Number of requests, by method, path, server, and whether they are long-running.", requestLabels...),
		took:     b.histograms("kubelet_http_requests_duration_seconds", "Duration of requests.", nil, requestLabels...),
		inFlight: b.gauges("kubelet_http_inflight_requests", "Number of requests in progress.", requestLabels...),
		sessions: b.counters("kubelet_websocket_streaming_requests_total", "Number of WebSocket session requests, by subresource.", "subresource"),
	}
}

// Kinds of servers.
const (
	ReadWrite = "readwrite" // the kubelet API
	ReadOnly  = "readonly"
)

// Count returns a handler that counts the requests to next, including refused ones.
func (s *Servers) Count(server string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := pathOf(r.URL.Path)
		labels := []string{methodOf(r.Method), path, server, strconv.FormatBool(slices.Contains(longRunning, path))}
		s.requests.WithLabelValues(labels...).Inc()
		inFlight := s.inFlight.WithLabelValues(labels...)
		inFlight.Inc()
		defer inFlight.Dec()
		began := time.Now()
		defer func() { s.took.WithLabelValues(labels...).Observe(time.Since(began).Seconds()) }()
		if slices.Contains(sessions, path) && strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
			s.sessions.WithLabelValues(strings.ToLower(path)).Inc()
		}
		next.ServeHTTP(w, r)
	})
}

const other = "other"

var (
	knownMethods = []string{"OPTIONS", "GET", "HEAD", "POST", "PUT", "DELETE", "TRACE", "CONNECT"}
	knownPaths   = []string{
		"healthz", "pods", "stats", "metrics", "metrics/cadvisor", "metrics/probes", "metrics/resource", "metrics/slis", "run", "exec", "attach",
		"portForward", "containerLogs", "configz", "runningpods", "checkpoint", "pprof", "logs", "debug", "flagz", "statusz",
	}
	sessions = []string{"exec", "attach", "portForward"}
	// lasting are the paths of long-running requests, with upstream's spelling, which does not
	// match portForward.
	longRunning = []string{"exec", "attach", "portforward", "debug"}
)

func methodOf(method string) string {
	if slices.Contains(knownMethods, method) {
		return method
	}
	return other
}

// pathOf returns the path label: the first part of a known path, two parts for metrics. Any other
// path is "other".
func pathOf(path string) string {
	parts := strings.SplitN(strings.TrimPrefix(path, "/"), "/", 3)
	kind := parts[0]
	if kind == "metrics" && len(parts) > 1 {
		kind += "/" + parts[1]
	}
	if slices.Contains(knownPaths, kind) {
		return kind
	}
	return other
}
