package server

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// withLogs is a Source with the log lines of each pod.
type withLogs struct {
	fixed
	deadline time.Duration
}

func (s *withLogs) LastLines(ctx context.Context, pod PodReport) []LogReport {
	if at, ok := ctx.Deadline(); ok {
		s.deadline = time.Until(at)
	}
	return []LogReport{{Container: "c", Lines: []string{"secret of " + pod.UID}}}
}

// The read-only port shows log lines to local clients, the API to clients that may read logs.
func TestAccessToLogLines(t *testing.T) {
	const path = "/statusz/pods/default/a?uid=u-2"
	s := &withLogs{fixed: fixed{report: aReport()}}
	with := func(change func(*APIConfig)) http.Handler {
		return api(t, func(c *APIConfig) { c.Source = s; change(c) })
	}
	may := func(answer bool) func(*http.Request) bool { return func(*http.Request) bool { return answer } }
	for name, c := range map[string]struct {
		h            http.Handler
		remote, host string
		hidden       string // "" if the lines are shown
	}{
		"local":                      {ReadOnly(s, Measures{}), "127.0.0.1:5", "127.0.0.1:10255", ""},
		"local, IPv6":                {ReadOnly(s, Measures{}), "[::1]:5", "[::1]:10255", ""},
		"local, by name":             {ReadOnly(s, Measures{}), "127.0.0.1:5", "localhost:10255", ""},
		"remote":                     {ReadOnly(s, Measures{}), "192.0.2.1:5", "192.0.2.9:10255", errRemote.Error()},
		"remote, forged host":        {ReadOnly(s, Measures{}), "192.0.2.1:5", "localhost", errRemote.Error()},
		"local, with another's name": {ReadOnly(s, Measures{}), "127.0.0.1:5", "rebound.example:10255", errRemote.Error()},
		"API":                        {with(func(c *APIConfig) { c.MayReadLogs = may(true) }), "192.0.2.1:5", "n:10250", ""},
		"API, forbidden":             {with(func(c *APIConfig) { c.MayReadLogs = may(false) }), "127.0.0.1:5", "127.0.0.1", errForbidden.Error()},
		"API, without permissions":   {with(func(*APIConfig) {}), "127.0.0.1:5", "127.0.0.1", errForbidden.Error()},
		"API, without debugging":     {with(func(c *APIConfig) { c.MayReadLogs, c.Debugging = may(true), false }), "127.0.0.1:5", "127.0.0.1", errDebugging.Error()},
	} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.RemoteAddr, r.Host = c.remote, c.host
		r.Header.Set("Accept", "application/json")
		w := httptest.NewRecorder()
		c.h.ServeHTTP(w, r)
		var got Report
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got), name)
		require.Equal(t, c.hidden, got.Pods[0].LogsHidden, name)
		if c.hidden != "" {
			require.NotContains(t, w.Body.String(), "secret", name)
			continue
		}
		require.Equal(t, []string{"secret of u-2"}, got.Pods[0].Logs[0].Lines, name)
		require.Positive(t, s.deadline)
		require.LessOrEqual(t, s.deadline, logTimeout)
	}
	require.NotContains(t, get(with(func(c *APIConfig) { c.MayReadLogs = may(true) }), "/statusz/pods", "text/html").Body.String(), "secret", "the page of all pods reads no logs")
}
