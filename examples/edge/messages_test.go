package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
)

// message returns a set of three pods. The pods in broken do not become ready.
func message(version, broken string) string {
	items := ""
	for _, name := range []string{"a", "b", "c"} {
		items += fmt.Sprintf(`
- metadata: {name: %s, labels: {version: "%s"}}
  spec:
    terminationGracePeriodSeconds: 1
    containers:
    - {name: main, image: "app:%s", readinessProbe: {exec: {command: ["%t"]}, periodSeconds: 1, timeoutSeconds: 30, failureThreshold: 1}}`,
			name, version, version, name != broken)
	}
	return "kind: PodList\napiVersion: v1\nitems:" + items
}

// send sends a message and returns the status code of the reply.
func (e *edge) send(body, key string) int {
	request, err := http.NewRequestWithContext(e.t.Context(), http.MethodPut, "http://"+e.address+"/pods", strings.NewReader(body))
	require.NoError(e.t, err)
	request.Header.Set("Authorization", "Bearer "+key)
	response, err := http.DefaultClient.Do(request)
	require.NoError(e.t, err)
	defer response.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	return response.StatusCode
}

// versions returns a check that the pods have these versions, such as "a1 b1 c1", and are ready except broken.
func versions(want, broken string) func(map[string]v1.Pod) error {
	return func(pods map[string]v1.Pod) error {
		for _, pod := range strings.Fields(want) {
			name := pod[:1] + "-edge"
			c, err := mainOf(pods, name)
			if err != nil || pods[name].Labels["version"] != pod[1:] || c.Ready == (pod == broken) || c.State.Running == nil {
				return fmt.Errorf("%s: version %s, ready %t, %v", pod, pods[name].Labels["version"], c.Ready, err)
			}
		}
		return nil
	}
}

// untilRollout waits for a state of the rollout.
func (e *edge) untilRollout(want string) {
	e.until(want, func(map[string]v1.Pod) error {
		if _, text := e.get(e.t, "/rollout", nil); text != want+"\n" {
			return errors.New(text)
		}
		return nil
	})
}

// Pods of messages are replaced one at a time, also if the agent is killed at any moment. A newer
// message replaces a stuck pod first.
func TestMessages(t *testing.T) {
	rt, endpoint := serve(t, fake.Config{AnyImage: true, Exec: fake.ByCommand(map[string]fake.Program{"true": fake.Exit(0), "false": fake.Exit(1)}, nil)})
	e := newEdge(t, endpoint)
	e.args = []string{"-min-ready=300ms"}
	require.NoError(t, os.Mkdir(e.root, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(e.root, "key"), []byte("secret\n"), 0o600))
	e.start()
	e.until("the agent responds", podCount(0))
	require.Equal(t, http.StatusForbidden, e.send(message("1", ""), "guess"))
	require.Equal(t, http.StatusBadRequest, e.send("kind: PodList\nitems: [{}]", "secret"))
	require.Equal(t, http.StatusNoContent, e.send(message("1", ""), "secret"))
	e.until("all pods start", versions("a1 b1 c1", ""))
	e.untilRollout("not ready: [] waiting: []")

	watch, stop := context.WithCancel(t.Context())
	fewest := 3
	var watching sync.WaitGroup
	watching.Go(func() { fewest = fewestRunning(watch, rt) })
	defer watching.Wait()
	defer stop()
	require.Equal(t, http.StatusNoContent, e.send(message("2", ""), "secret"))
	for lifetime := time.Duration(0); lifetime < 800*time.Millisecond; lifetime += 100 * time.Millisecond {
		time.Sleep(lifetime)
		require.Error(t, e.end(syscall.SIGKILL))
		e.start()
	}
	e.untilRollout("not ready: [] waiting: []")
	e.until("the rollout has continued", versions("a2 b2 c2", ""))

	require.Equal(t, http.StatusNoContent, e.send(message("3", "b"), "secret"))
	e.until("the rollout is stuck", versions("a3 b3 c2", "b3"))
	require.Error(t, e.end(syscall.SIGKILL))
	e.start()
	e.untilRollout("not ready: [b-edge] waiting: [c-edge]")
	time.Sleep(2 * time.Second) // more than its probe's period and -min-ready
	pods, err := e.pods()
	require.NoError(t, err)
	require.NoError(t, versions("a3 b3 c2", "b3")(pods))
	require.Equal(t, http.StatusNoContent, e.send(message("4", "a"), "secret"))
	e.until("the stuck pod is replaced first", versions("a4 b4 c2", "a4"))
	require.NoError(t, e.end(syscall.SIGTERM))
	stop()
	watching.Wait()
	require.Equal(t, 2, fewest, "one pod at a time")
}

// fewestRunning returns the smallest number of pods with a running container until ctx is done.
func fewestRunning(ctx context.Context, rt *fake.Runtime) int {
	fewest := 3
	for ; ctx.Err() == nil; time.Sleep(time.Millisecond) {
		containers, err := rt.ListContainers(ctx, &runtimeapi.ContainerFilter{State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING}})
		if err == nil {
			fewest = min(fewest, len(containers))
		}
	}
	return fewest
}
