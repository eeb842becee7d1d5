package kubeletapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/cri/logs"
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

// The served paths. 400 means that the request reached its handler, which requires an upgrade.
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

// A request that Allow refuses has no effect.
func TestWhoMayNot(t *testing.T) {
	for err, code := range map[error]int{
		errors.New("you are nobody"):                                           http.StatusForbidden,
		&Refusal{Code: http.StatusUnauthorized, Message: "you are nobody"}:     http.StatusUnauthorized,
		fmt.Errorf("wrapped: %w", &Refusal{http.StatusUnauthorized, "nobody"}): http.StatusUnauthorized,
		&Refusal{Code: http.StatusOK, Message: "you are nobody"}:               http.StatusForbidden,
		&Refusal{Message: "you are nobody"}:                                    http.StatusForbidden,
		errors.Join(errors.New("you"), errors.New("are nobody, both of you")):  http.StatusForbidden,
	} {
		a := &asked{}
		h := handler(t, a, func(c *Config) { c.Allow = func(*http.Request) error { return err } })
		for _, request := range []string{"/containerLogs/ns/p/c", "/exec/ns/p/c?command=ls&output=1", "/nothing"} {
			w := do(h, http.MethodGet, request)
			require.Equal(t, code, w.Code)
			require.Contains(t, w.Body.String(), "nobody")
			require.Equal(t, "close", w.Header().Get("Connection"))
		}
		require.Zero(t, a.calls)
	}
}

func TestLogRequests(t *testing.T) {
	lines, none := int64(12), int64(0)
	type request struct {
		previous bool
		logs.Options
	}
	for query, want := range map[string]request{
		"":                              {},
		"follow=true&previous=1":        {true, logs.Options{Follow: true}},
		"follow=false&timestamps=0":     {},
		"follow":                        {Options: logs.Options{Follow: true}},
		"tailLines=12&limitBytes=5":     {Options: logs.Options{TailLines: &lines, LimitBytes: 5}},
		"tailLines=0":                   {Options: logs.Options{TailLines: &none}},
		"sinceSeconds=3":                {Options: logs.Options{Since: 3 * time.Second}},
		"sinceSeconds=9223372036854775": {Options: logs.Options{Since: 9223372036 * time.Second}},
		"sinceTime=2026-01-02T03:04:05Z&timestamps=true": {Options: logs.Options{SinceTime: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Timestamps: true}},
	} {
		p := &asked{out: "out err"}
		w := do(handler(t, p, nil), http.MethodGet, "/containerLogs/ns/p/c?"+query)
		require.Equal(t, http.StatusOK, w.Code, query)
		require.Equal(t, want, request{p.previous, p.options}, query)
		require.Equal(t, Target{Namespace: "ns", Pod: "p", Container: "c"}, p.target)
		require.Len(t, w.Body.String(), 6)
	}
	for query, want := range map[string]string{
		"tailLines=-1": "tailLines", "tailLines=x": "tailLines", "tailLines=1e9": "tailLines", "sinceSeconds=-0.5": "sinceSeconds", "limitBytes=0": "limitBytes", "sinceSeconds=0": "sinceSeconds",
		"sinceSeconds=99999999999999999999": "sinceSeconds", "sinceTime=yesterday": "sinceTime", "sinceSeconds=1&sinceTime=2026-01-02T03:04:05Z": "only one",
		"stream=Both": "stream", "stream=Stdout&tailLines=3": "tailLines",
	} {
		w := do(handler(t, &asked{}, nil), http.MethodGet, "/containerLogs/ns/p/c?"+query)
		require.Equal(t, http.StatusBadRequest, w.Code, query)
		require.Contains(t, w.Body.String(), want, query)
	}
}

func TestOneStreamOfALog(t *testing.T) {
	for query, want := range map[string]string{"?stream=Stdout": "out", "?stream=Stderr": "err"} {
		w := do(handler(t, &asked{out: "out err"}, nil), http.MethodGet, "/containerLogs/ns/p/c"+query)
		require.Equal(t, want, w.Body.String())
	}
}

// Errors keep their status.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		asked asked
		code  int
		text  string
	}{
		{asked{err: &Refusal{Code: http.StatusBadRequest, Message: "container is waiting"}}, http.StatusBadRequest, "container is waiting"},
		{asked{err: fmt.Errorf("pods: %w", &Refusal{Code: http.StatusNotFound, Message: "pod is not here"})}, http.StatusNotFound, "pods: pod is not here"},
		{asked{err: errors.New("runtime is away")}, http.StatusInternalServerError, "runtime is away"},
		{asked{unread: fmt.Errorf("reading log: %w", fs.ErrNotExist)}, http.StatusNotFound, "the log was removed"},
		{asked{unread: errors.New("disk is broken")}, http.StatusInternalServerError, "disk is broken"},
	} {
		w := do(handler(t, &c.asked, nil), http.MethodGet, "/containerLogs/ns/p/c")
		require.Equal(t, c.code, w.Code)
		require.Contains(t, w.Body.String(), c.text)
	}
}

// follow requests a log and reads its first bytes.
func follow(t *testing.T, conn net.Conn) io.Reader {
	t.Helper()
	_, err := io.WriteString(conn, "GET /containerLogs/ns/p/c?follow=1 HTTP/1.1\r\nHost: node\r\n\r\n")
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	some := make([]byte, 3)
	_, err = io.ReadFull(response.Body, some)
	require.NoError(t, err)
	require.Equal(t, "out", string(some), "what is written comes at once")
	return response.Body
}

// A followed log outlasts the server's timeouts for other requests.
func TestFollowedLogsOutliveTheServersTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := make(chan struct{})
		begin := time.Now()
		body := follow(t, inMemory(t, handler(t, &asked{out: "out", wait: wait}, nil))())
		time.AfterFunc(2*soon, func() { close(wait) })
		_, err := io.ReadAll(body)
		require.NoError(t, err)
		require.Equal(t, 2*soon, time.Since(begin), "it ends with its log")
	})
}

type flood struct {
	*asked
	ended chan error
}

func (f flood) Read(_ context.Context, _ logs.Log, _ logs.Options, stdout, _ io.Writer) error {
	for text := make([]byte, 32<<10); ; {
		if _, err := stdout.Write(text); err != nil {
			f.ended <- err
			return err
		}
	}
}

// A client that does not read its log is dropped, and delays no other client.
func TestReadersThatDoNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &asked{out: "out"}
		f := flood{a, make(chan error, 1)}
		dial := inMemory(t, handler(t, a, func(c *Config) { c.Logs, c.IdleTimeout = f, time.Hour }))
		begin := time.Now()
		_, err := io.WriteString(dial(), "GET /containerLogs/ns/p/c?follow=1 HTTP/1.1\r\nHost: node\r\n\r\n")
		require.NoError(t, err)
		other := dial()
		_, err = io.WriteString(other, "GET /exec/ns/p/c HTTP/1.1\r\nHost: node\r\n\r\n")
		require.NoError(t, err)
		response, err := http.ReadResponse(bufio.NewReader(other), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusBadRequest, response.StatusCode)
		require.ErrorIs(t, <-f.ended, os.ErrDeadlineExceeded)
		require.Equal(t, time.Hour, time.Since(begin))
	})
}
