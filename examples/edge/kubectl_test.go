package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/streams"
	"github.com/podwright/podwright/examples/tools/testbed/tb"
)

const talker = `
apiVersion: v1
kind: Pod
metadata: {name: talker}
spec:
  terminationGracePeriodSeconds: 2
  containers:
  - {name: main, image: %s, command: [sh, -c, 'echo hello; echo world; trap "exit 0" TERM; while :; do sleep 0.1; done']}
`

// The agent serves the requests that an API server sends for kubectl logs and exec.
func TestKubectl(t *testing.T) {
	images := tb.Images(t)
	for _, rt := range tb.Runtimes(t) {
		t.Run(rt.Name, func(t *testing.T) {
			t.Parallel()
			e := newEdge(t, rt.Endpoint)
			e.place("talker.yaml", fmt.Sprintf(talker, images.Busybox))
			require.NoError(t, os.Mkdir(e.root, 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(e.root, "key"), []byte("secret\n"), 0o600))
			e.start()
			e.until("talker is ready", ready("talker-edge", 0))

			key := http.Header{"Authorization": {"Bearer secret"}}
			e.until("the log has the line", func(map[string]v1.Pod) error {
				if code, text := e.get(t, "/containerLogs/default/talker-edge/main?tailLines=1", key); code+" "+text != "200 world\n" {
					return fmt.Errorf("%s %q", code, text)
				}
				return nil
			})
			code, _ := e.get(t, "/containerLogs/default/talker-edge/none", key)
			require.Equal(t, "404", code)
			for _, path := range []string{"/containerLogs/default/talker-edge/main", "/exec/default/talker-edge/main?command=id&output=1"} {
				code, _ = e.get(t, path, http.Header{"Authorization": {"Bearer "}})
				require.Equal(t, "403", code)
			}

			client := &streams.Client{Header: key}
			var out bytes.Buffer
			exit, err := client.Exec(t.Context(), "http://"+e.address+"/exec/default/talker-edge/main?input=1&output=1&command=sh&command=-c&command=tr+a-z+A-Z%3B+exit+7",
				streams.Session{Stdin: strings.NewReader("to upper"), Stdout: &out})
			require.NoError(t, err)
			require.Equal(t, 7, exit)
			require.Equal(t, "TO UPPER", out.String())

			// A session ends with its container.
			stdin, input := io.Pipe()
			defer input.Close()
			ended := make(chan error, 1)
			go func() {
				_, err := client.Exec(t.Context(), "http://"+e.address+"/exec/default/talker-edge/main?input=1&output=1&command=cat", streams.Session{Stdin: stdin, Stdout: io.Discard})
				ended <- err
			}()
			_, err = io.WriteString(input, "x") // after this read the session is open
			require.NoError(t, err)
			require.NoError(t, os.Remove(filepath.Join(e.manifests, "talker.yaml")))
			e.until("no pods remain", podCount(0))
			<-ended
			require.NoError(t, e.end(syscall.SIGTERM))
		})
	}
}

func (e *edge) get(t *testing.T, path string, header http.Header) (code, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+e.address+path, nil)
	require.NoError(t, err)
	request.Header = header
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	http.DefaultClient.CloseIdleConnections()
	return fmt.Sprint(response.StatusCode), string(body)
}
