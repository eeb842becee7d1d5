// Package server is the HTTP server of a kubelet. It serves /healthz on the healthz port, endpoints
// without authentication on the read-only port, and the kubelet API, for logs and sessions of
// kubectl, on a port with TLS.
//
//	api, err := server.NewAPI(server.APIConfig{Source: agent, Debugging: true, Containers: containers, Commands: server.NewCommands(pods)})
//	err = server.ServeAPI(ctx, listener, tls, door.Handler(api), log) // door: package auth
//
// routes.go is the table of endpoints, with the status codes of disabled ones. Package
// cri/kubeletapi serves logs and sessions (exec, attach, port-forward). /statusz/pods and the page
// of each pod (page.go, podpage.go) are for people: they load nothing and run no scripts in a
// browser. So are /flagz and /statusz (zpages.go).
//
// A Source responds from memory, except for the log lines of one pod (logs.go). Clients cannot block the agent: connections, requests and sessions
// are bounded in number, size and time, and all end with the server.
//
// Package auth authorizes requests to the API. Package nodelogs serves the node's logs.
package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Source provides the servers' data. It must be safe for concurrent use. All methods return from
// memory, except for statuses that an earlier agent saved.
type Source interface {
	// Pods returns every pod that is desired or not finished, with its newest status. notes are
	// sentences about gaps in the list. It returns an error of one sentence while the pods are
	// unknown.
	Pods() (pods []v1.Pod, notes []string, err error)
	// Report returns the state of the pods with the reasons.
	Report() Report
	// Health returns the agent's health checks.
	Health() []Check
}

// Healthz returns the handler of the healthz port.
func Healthz(s Source) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", healthz(s))
	mux.HandleFunc("GET /healthz/{check}", healthz(s))
	return mux
}

// ReadOnly returns the handler of the read-only port: endpoints without authentication. Other paths
// of the kubelet API return 405 or 404.
func ReadOnly(s Source, m Measures) http.Handler {
	mux := http.NewServeMux()
	always(mux, s, m, localOnly)
	for _, r := range (&APIConfig{}).debugging() {
		r.handler = nil
		r.add(mux)
	}
	return asWritten(mux)
}

func healthz(s Source) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		only, known := r.PathValue("check"), false
		var failed []string
		for _, c := range s.Health() {
			if only != "" && only != c.Name {
				continue
			}
			known = true
			if !c.OK {
				failed = append(failed, fmt.Sprintf("[-]%s failed: %s", c.Name, c.Message))
			}
		}
		if only != "" && !known {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if len(failed) > 0 {
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprintln(w, strings.Join(failed, "\n"))
			return
		}
		fmt.Fprint(w, "ok")
	}
}

func pods(s Source) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		items, notes, err := s.Pods()
		if err != nil {
			w.Header().Set("Retry-After", "1")
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		for _, note := range notes { // in the form of an API server's warnings (RFC 7234, 5.5)
			w.Header().Add("Warning", fmt.Sprintf("299 - %q", note))
		}
		writeJSON(w, v1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: items})
	}
}

func podsPage(s Source) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { show(w, r, s.Report(), writePage) }
}

// podPage shows one pod: with ?uid= only that one, else all pods of its name.
func podPage(s Source, access logAccess) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		report, uid := s.Report(), r.URL.Query().Get("uid")
		report.Pods = slices.DeleteFunc(slices.Clone(report.Pods), func(p PodReport) bool {
			return p.Namespace != r.PathValue("namespace") || p.Name != r.PathValue("pod") || uid != "" && p.UID != uid
		})
		if len(report.Pods) == 0 {
			http.Error(w, "this pod is not on this node", http.StatusNotFound)
			return
		}
		addLogs(r, s, report.Pods, access)
		show(w, r, report, writePodPage)
	}
}

// show writes a report as JSON or as a page. The page cannot load resources, run scripts or be
// embedded, whatever the texts of pods contain.
func show(w http.ResponseWriter, r *http.Request, report Report, page func(io.Writer, Report) error) {
	if !wantsHTML(r) {
		writeJSON(w, report)
		return
	}
	for name, value := range map[string]string{
		"Content-Type":            "text/html; charset=utf-8",
		"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		"X-Content-Type-Options":  "nosniff",
		"Referrer-Policy":         "no-referrer",
		"Cache-Control":           "no-store",
	} {
		w.Header().Set(name, value)
	}
	if err := page(w, report); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// wantsHTML reports whether the client is a browser: ?format= decides, else Accept.
func wantsHTML(r *http.Request) bool {
	switch r.URL.Query().Get("format") {
	case "html":
		return true
	case "json":
		return false
	}
	return strings.Contains(r.Header.Get("Accept"), "text/html")
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(value); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
