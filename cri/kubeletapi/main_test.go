package kubeletapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/logs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// asked records requests and returns scripted replies. It implements all dependencies of the
// handler.
type asked struct {
	target   Target
	previous bool
	options  logs.Options
	sent     fmt.Stringer
	calls    int

	at  *url.URL
	out string
	// err is returned by Pods, refused by the runtime, unread by the log.
	err, refused, unread error
	// wait blocks Read until it is closed or the request ends.
	wait chan struct{}
}

func (a *asked) RunningContainer(_ context.Context, t Target) (Container, error) {
	a.calls++
	a.target = t
	return Container{ID: "id of " + t.Container, TTY: t.Container == "terminal"}, a.err
}

func (a *asked) RunningSandbox(_ context.Context, t Target) (string, error) {
	a.calls++
	a.target = t
	return "id of " + t.Pod, a.err
}

func (a *asked) Log(_ context.Context, t Target, previous bool) (logs.Log, error) {
	a.calls++
	a.target, a.previous = t, previous
	return logs.Log{Path: "/logs/" + t.Container}, a.err
}

func (a *asked) Read(ctx context.Context, log logs.Log, o logs.Options, stdout, stderr io.Writer) error {
	a.options = o
	if a.unread != nil {
		return a.unread
	}
	for stream, w := range map[string]io.Writer{"out": stdout, "err": stderr} {
		if w != nil && strings.Contains(a.out, stream) {
			if _, err := io.WriteString(w, stream); err != nil {
				return err
			}
		}
	}
	if a.wait != nil {
		select {
		case <-a.wait:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (a *asked) session(request fmt.Stringer) (string, error) {
	a.sent = request
	if a.refused != nil {
		return "", a.refused
	}
	return a.at.String(), nil
}

func (a *asked) Exec(_ context.Context, r *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	at, err := a.session(r)
	return &runtimeapi.ExecResponse{Url: at}, err
}

func (a *asked) Attach(_ context.Context, r *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	at, err := a.session(r)
	return &runtimeapi.AttachResponse{Url: at}, err
}

func (a *asked) PortForward(_ context.Context, r *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	at, err := a.session(r)
	return &runtimeapi.PortForwardResponse{Url: at}, err
}

func anybody(*http.Request) error { return nil }

func handler(t testing.TB, a *asked, change func(*Config)) http.Handler {
	t.Helper()
	cfg := Config{Allow: anybody, Pods: a, Runtime: a, Logs: a}
	if change != nil {
		change(&cfg)
	}
	h, err := New(cfg)
	require.NoError(t, err)
	return h
}

func do(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}
