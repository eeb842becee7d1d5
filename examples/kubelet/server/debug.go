package server

import (
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"strconv"
	"strings"
)

// profiles serves the profiles of net/http/pprof. It returns nil without Profiling.
func (c *APIConfig) profiles() http.Handler {
	if !c.Profiling {
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch strings.TrimPrefix(r.URL.Path, "/debug/pprof/") {
		case "profile":
			pprof.Profile(w, r)
		case "symbol":
			pprof.Symbol(w, r)
		case "cmdline":
			pprof.Cmdline(w, r)
		case "trace":
			pprof.Trace(w, r)
		default:
			pprof.Index(w, r)
		}
	})
}

// verbosity serves /debug/flags/v, whose request body is the new verbosity. It returns nil without
// SetVerbosity.
func (c *APIConfig) verbosity() http.Handler {
	if c.SetVerbosity == nil {
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64))
		if err != nil {
			http.Error(w, "the body is not a number", http.StatusBadRequest)
			return
		}
		v, err := strconv.ParseInt(strings.TrimSpace(string(body)), 10, 32)
		if err != nil || v < 0 {
			http.Error(w, fmt.Sprintf("%q is not a verbosity: must be a whole number, 0 or more", body), http.StatusBadRequest)
			return
		}
		c.SetVerbosity(int(v))
		fmt.Fprintf(w, "successfully set klog.logging.verbosity to %d", v) // the text of upstream kubelets
	})
}

// configz serves the effective configuration. It returns nil without Config.
func (c *APIConfig) configz() http.Handler {
	if c.Config == nil {
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		writeJSON(w, c.Config())
	})
}
