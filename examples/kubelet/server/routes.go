package server

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/podwright/podwright/examples/kubelet/server/auth"
	"github.com/podwright/podwright/internal/fields"
)

// APIConfig configures the kubelet API. Endpoints of nil fields are not served.
type APIConfig struct {
	// Source provides pods, report and health. Required.
	Source Source
	// Debugging serves endpoints that access containers or show the process
	// (enableDebuggingHandlers). Without it their paths return 405 or 404.
	Debugging bool
	// Containers serves logs and sessions. It is a kubeletapi.New. Required with Debugging.
	Containers http.Handler
	// Commands serves commands in containers, checkpoints and the running pods. It is a
	// NewCommands. Required with Debugging.
	Commands http.Handler
	// MayReadLogs reports whether the client of a request may read the logs of containers. The page
	// of a pod shows log lines with Debugging and this permission. Optional: without it no client
	// may.
	MayReadLogs func(*http.Request) bool
	// Profiling serves /debug/pprof (enableProfilingHandler).
	Profiling bool
	// SetVerbosity changes the verbosity of the log (enableDebugFlagsHandler).
	SetVerbosity func(verbosity int)
	// Config returns the effective configuration for /configz, by name.
	Config func() map[string]any
	// NodeLogs serves the paths below /logs/ (enableSystemLogHandler).
	NodeLogs http.Handler
	// Flags returns all flags with their values, without secrets, for /flagz (ComponentFlagz).
	Flags func() map[string]string
	// Version is the version for /statusz, such as "v1.36.3+podwright.v0.1.0" (ComponentStatusz).
	Version string
	// Measures are served with and without Debugging.
	Measures Measures
}

// Measures are the handlers of metrics and statistics. A nil handler returns 404.
type Measures struct {
	Summary  http.Handler // /stats/summary
	Metrics  http.Handler // /metrics
	CAdvisor http.Handler // /metrics/cadvisor
	Resource http.Handler // /metrics/resource
	Probes   http.Handler // /metrics/probes
	SLIs     http.Handler // /metrics/slis
}

func (m Measures) paths() map[string]http.Handler {
	return map[string]http.Handler{
		"/stats/summary": m.Summary, "/metrics": m.Metrics, "/metrics/cadvisor": m.CAdvisor,
		"/metrics/resource": m.Resource, "/metrics/probes": m.Probes, "/metrics/slis": m.SLIs,
	}
}

func (c *APIConfig) complete() error {
	f := fields.Of("server: APIConfig")
	f.Required("Source", c.Source)
	if c.Debugging {
		f.Required("Containers", c.Containers)
		f.Required("Commands", c.Commands)
	}
	return f.Err()
}

// NewAPI returns the handler of the kubelet API. It does not authenticate: the caller wraps it, such
// as in auth.Auth.Handler. ServeAPI gives a request that reaches it more time; see there. The
// end of a request's context must end the request, even if its connection was hijacked. ServeAPI
// ensures this.
func NewAPI(cfg APIConfig) (http.Handler, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	always(mux, cfg.Source, cfg.Measures, cfg.access())
	for _, route := range cfg.debugging() {
		if !cfg.Debugging {
			route.handler = nil
		}
		route.add(mux)
	}
	return admit(asWritten(mux)), nil
}

func always(mux *http.ServeMux, s Source, m Measures, access logAccess) {
	for pattern, handler := range map[string]http.HandlerFunc{
		"GET /healthz": healthz(s), "GET /healthz/{check}": healthz(s), "GET /pods": pods(s), "GET /pods/{$}": pods(s), "GET /statusz/pods": podsPage(s), "GET /statusz/pods/{namespace}/{pod}": podPage(s, access),
	} {
		mux.Handle(pattern, withWriteDeadline(handler))
	}
	mux.Handle("GET /{$}", http.RedirectHandler("/statusz/pods", http.StatusFound))
	for path, handler := range m.paths() {
		if handler == nil {
			mux.Handle(path, respondWith(http.StatusNotFound, "these metrics are not available on this kubelet"))
			continue
		}
		mux.Handle("GET "+path, withWriteDeadline(handler))
	}
}

type route struct {
	methods string // separated by spaces
	// paths are the handler's paths below root. Other paths below root return 404.
	root    string
	paths   []string
	handler http.Handler // nil if disabled
	// off is the status code of a disabled path: StatusMethodNotAllowed or StatusNotFound. why is
	// its text.
	off int
	why string
}

func (r route) add(mux *http.ServeMux) {
	if r.handler == nil {
		off := respondWith(r.off, cmp.Or(r.why, "Debug endpoints are disabled."))
		mux.Handle(r.root, off)
		if below := r.root + "/"; !strings.HasSuffix(r.root, "/") {
			mux.Handle(below, off)
		}
		return
	}
	for _, method := range strings.Fields(r.methods) {
		for _, path := range r.paths {
			mux.Handle(method+" "+r.root+path, r.handler)
		}
	}
}

// container are the paths of a container, with and without the pod's UID.
var container = []string{"{namespace}/{pod}/{container}", "{namespace}/{pod}/{uid}/{container}"}

func (c *APIConfig) debugging() []route {
	all := []string{""} // the handler routes the paths below
	routes := []route{
		{methods: "GET", root: "/containerLogs/", paths: all, handler: c.Containers},
		{methods: "GET POST", root: "/exec/", paths: all, handler: c.Containers},
		{methods: "GET POST", root: "/attach/", paths: all, handler: c.Containers},
		{methods: "GET POST", root: "/portForward/", paths: all, handler: c.Containers},
		{methods: "POST", root: "/run/", paths: container, handler: c.Commands},
		{methods: "GET", root: "/runningpods", paths: []string{"", "/{$}"}, handler: c.Commands},
		{methods: "POST", root: "/checkpoint/", paths: container[:1], handler: c.Commands, off: http.StatusNotFound},
		{methods: "GET", root: "/logs", paths: []string{"", "/"}, handler: c.NodeLogs, why: "logs endpoint is disabled."},
		{methods: "GET", root: "/debug/pprof", paths: []string{"", "/"}, handler: c.profiles(), why: "profiling endpoint is disabled."},
		{methods: "PUT", root: "/debug/flags/v", paths: []string{""}, handler: c.verbosity(), why: "flags endpoint is disabled."},
		{methods: "GET", root: "/configz", paths: []string{""}, handler: c.configz(), off: http.StatusNotFound},
		{methods: "GET", root: "/flagz", paths: []string{""}, handler: c.flagz(), off: http.StatusNotFound},
	}
	served := []string{"/healthz", "/pods", "/statusz"} // and the first segments of enabled routes
	for i := range routes {
		routes[i].off = cmp.Or(routes[i].off, http.StatusMethodNotAllowed)
		if !c.Debugging {
			routes[i].why = ""
			if routes[i].root == "/debug/flags/v" { // as in upstream kubelets, which serve no path there
				routes[i].off = http.StatusNotFound
			}
		}
		if routes[i].handler != nil {
			first, _, _ := strings.Cut(routes[i].root[1:], "/")
			served = append(served, "/"+first)
		}
	}
	slices.Sort(served)
	return append(routes, route{methods: "GET", root: "/statusz", paths: []string{""}, handler: c.statusz(slices.Compact(served)), off: http.StatusNotFound})
}

// withWriteDeadline aborts a response that the client does not read.
func withWriteDeadline(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(quick)) // fails only without a connection
		next.ServeHTTP(w, r)
	})
}

func respondWith(code int, message string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, message, code) })
}

// asWritten refuses ambiguous paths, so that a decision about a path before routing remains valid.
// Authentication already refuses them; the read-only port has none.
func asWritten(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !auth.Plain(r.URL) {
			http.Error(w, auth.ErrPath.Error(), http.StatusBadRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}
