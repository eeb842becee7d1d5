package streams_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/kubeletapi"
	crilogs "github.com/podwright/podwright/cri/logs"
	"github.com/podwright/podwright/cri/streams"
)

type oneApp struct{ sandbox, container string }

func (n oneApp) RunningContainer(_ context.Context, t kubeletapi.Target) (kubeletapi.Container, error) {
	if t.Container != "app" {
		return kubeletapi.Container{}, &kubeletapi.Refusal{Code: http.StatusNotFound, Message: "no container " + t.Container}
	}
	return kubeletapi.Container{ID: n.container}, nil
}
func (n oneApp) RunningSandbox(context.Context, kubeletapi.Target) (string, error) {
	return n.sandbox, nil
}
func (n oneApp) Log(context.Context, kubeletapi.Target, bool) (crilogs.Log, error) {
	return crilogs.Log{}, nil
}

// serveKubectl serves a fake's containers like a kubelet, and returns the URL.
func serveKubectl(ctx context.Context, rt *fake.Runtime, n oneApp) (at string, end func()) {
	api := must(kubeletapi.New(kubeletapi.Config{
		Allow: func(r *http.Request) error {
			if r.Header.Get("Authorization") != "Bearer key" {
				return errors.New("the key is wrong")
			}
			return nil
		},
		Pods: n, Runtime: rt, Logs: must(crilogs.NewReader(crilogs.ReaderConfig{})),
	}))
	server := httptest.NewUnstartedServer(api)
	server.Config.BaseContext = func(net.Listener) context.Context { return ctx } // its end ends sessions
	server.Start()
	return server.URL, server.Close
}

// kubeletNode returns a fake with sessions over TCP, which a reverse proxy can dial.
func kubeletNode(ctx context.Context, cfg fake.Config) (rt *fake.Runtime, n oneApp, end func()) {
	server := must(streams.NewServer(streams.Config{Listener: must(net.Listen("tcp", "127.0.0.1:0"))}))
	cfg.AnyImage, cfg.Streams = true, server
	rt = must(fake.New(cfg))
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx, rt) }()
	end = func() {
		cancel()
		_ = must(0, <-ended)
		_ = rt.Close()
	}
	sandbox := must(rt.RunPodSandbox(ctx, podConfig(), ""))
	id := must(rt.CreateContainer(ctx, sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: &runtimeapi.ImageSpec{Image: "busybox"},
	}, podConfig()))
	_ = must(0, rt.StartContainer(ctx, id))
	return rt, oneApp{sandbox, id}, end
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// An agent serves kubectl exec: the API server's request, and the session.
func ExampleClient_Exec() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	rt, n, end := kubeletNode(ctx, fake.Config{Exec: fake.ByCommand(map[string]fake.Program{"cat": cat}, nil)})
	defer end()
	url, stop := serveKubectl(ctx, rt, n)
	defer stop()

	caller := &streams.Client{Header: http.Header{"Authorization": {"Bearer key"}}}
	session := streams.Session{Stdin: strings.NewReader("hello\n"), Stdout: os.Stdout}
	code, err := caller.Exec(ctx, url+"/exec/default/web/app?command=cat&input=1&output=1", session)
	fmt.Println(code, err)
	_, err = caller.Exec(ctx, url+"/exec/default/web/none?command=cat&output=1", streams.Session{Stdout: os.Stdout})
	fmt.Println(err)
	// Output:
	// hello
	// 0 <nil>
	// exec session: 404 NotFound: no container none
}

// Sessions through an agent behave like those on the runtime's own URL, over both protocols.
func TestKubeletAPI(t *testing.T) {
	rt, n, end := kubeletNode(t.Context(), fake.Config{Exec: commands, Ports: echo})
	defer end()
	url, stop := serveKubectl(t.Context(), rt, n)
	defer stop()
	caller := &streams.Client{Header: http.Header{"Authorization": {"Bearer key"}}}
	_, err := new(streams.Client).Exec(t.Context(), url+"/exec/ns/p/app?command=both&output=1", streams.Session{Stdout: io.Discard})
	require.ErrorContains(t, err, "403 Forbidden: the key is wrong")
	for name, protocol := range protocols {
		t.Run(name, func(t *testing.T) {
			client := &streams.Client{Protocol: protocol, Header: caller.Header}
			var stdout, stderr strings.Builder
			code, err := client.Exec(t.Context(), url+"/exec/ns/p/app?command=both&output=1&error=1", streams.Session{Stdout: &stdout, Stderr: &stderr})
			require.NoError(t, err)
			require.Equal(t, 42, code)
			require.Equal(t, "out\n", stdout.String())
			require.Equal(t, "err\n", stderr.String())

			sizes := make(chan streams.Size, 1)
			sizes <- streams.Size{Width: 100, Height: 50}
			stdout.Reset()
			code, err = client.Exec(t.Context(), url+"/exec/ns/p/app?command=size&output=1&tty=1", streams.Session{Stdout: &stdout, TTY: true, Resize: sizes})
			require.NoError(t, err)
			require.Zero(t, code, "the size has come: %s", stdout.String())

			_, err = client.Exec(t.Context(), url+"/exec/ns/p/app?command=none&output=1", streams.Session{Stdout: io.Discard})
			require.ErrorContains(t, err, "none")
		})
	}
	conn, err := caller.PortForward(t.Context(), url+"/portForward/ns/p", 80)
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "hello")
	require.NoError(t, err)
	require.Equal(t, "hello", read(t, conn, 5))
}
