package kubeletapi

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConfig(t *testing.T) {
	a := &asked{}
	good := Config{Allow: anybody, Pods: a, Runtime: a, Logs: a}
	for want, spoil := range map[string]func(*Config){
		"kubeletapi: Config.Allow is required":   func(c *Config) { c.Allow = nil },
		"kubeletapi: Config.Pods is required":    func(c *Config) { c.Pods = (*asked)(nil) },
		"kubeletapi: Config.Runtime is required": func(c *Config) { c.Runtime = nil },
		"kubeletapi: Config.Logs is required":    func(c *Config) { c.Logs = nil },
		"Config.IdleTimeout is negative":         func(c *Config) { c.IdleTimeout = -1 },
		"Config.MaxSessions is negative":         func(c *Config) { c.MaxSessions = -1 },
	} {
		cfg := good
		spoil(&cfg)
		_, err := New(cfg)
		require.ErrorContains(t, err, want)
	}
}

// What is served; 400 is a request that came to its handler without an upgrade.
func TestPaths(t *testing.T) {
	h := handler(t, &asked{}, nil)
	for request, code := range map[string]int{
		"GET /containerLogs/ns/p/c":     200,
		"POST /containerLogs/ns/p/c":    405,
		"GET /containerLogs/ns/p/uid/c": 404,
		"GET /containerLogs/ns/p":       404,
		"GET /exec/ns/p/c":              400,
		"POST /exec/ns/p/uid/c":         400,
		"PUT /exec/ns/p/c":              405,
		"GET /exec/ns/p":                404,
		"POST /attach/ns/p/c":           400,
		"GET /attach/ns/p/uid/c":        400,
		"POST /portForward/ns/p":        400,
		"GET /portForward/ns/p/uid":     400,
		"DELETE /portForward/ns/p":      405,
		"GET /":                         404,
		"GET /pods":                     404,
	} {
		method, path, _ := strings.Cut(request, " ")
		require.Equal(t, code, do(h, method, path).Code, request)
	}
}

// Nothing is asked for whoever may not.
func TestWhoMayNot(t *testing.T) {
	for err, code := range map[error]int{
		errors.New("you are nobody"):                                          http.StatusForbidden,
		&Refusal{Code: http.StatusUnauthorized, Message: "you are nobody"}:    http.StatusUnauthorized,
		errors.Join(errors.New("you"), errors.New("are nobody, both of you")): http.StatusForbidden,
	} {
		a := &asked{}
		h := handler(t, a, func(c *Config) { c.Allow = func(*http.Request) error { return err } })
		for _, request := range []string{"/containerLogs/ns/p/c", "/exec/ns/p/c?command=ls&output=1", "/nothing"} {
			w := do(h, http.MethodGet, request)
			require.Equal(t, code, w.Code)
			require.Contains(t, w.Body.String(), "nobody")
		}
		require.Zero(t, a.calls)
	}
}
