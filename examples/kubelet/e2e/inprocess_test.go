package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"sigs.k8s.io/yaml"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/examples/kubelet/agent"
	"github.com/podwright/podwright/examples/kubelet/config"
)

// testAgent is an agent in the test's process, with a pod that keeps running.
type testAgent struct {
	agent     *agent.Agent
	manifests string
	pods      string // the folder of the pods' folders
	stop      context.CancelFunc
	done      chan error
}

func newTestAgent(t *testing.T, node, image string, connect agent.Connector) *testAgent {
	t.Helper()
	dir := t.TempDir()
	g := &testAgent{manifests: filepath.Join(dir, "manifests"), pods: filepath.Join(dir, "root", "pods")}
	require.NoError(t, os.Mkdir(g.manifests, 0o755))
	data, err := yaml.Marshal(newPod("stays", testprog(image, "run")))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(g.manifests, "stays.yaml"), data, 0o644))
	g.agent, err = agent.New(testAgentConfig(node, dir, connect))
	require.NoError(t, err)
	return g
}

// testAgentConfig returns a configuration of an agent with all its files below dir.
func testAgentConfig(node, dir string, connect agent.Connector) agent.Config {
	cfg := agent.Config{Config: config.Default(), Connect: connect}
	cfg.Flags.NodeName, cfg.Flags.RootDir = node, filepath.Join(dir, "root")
	cfg.Kubelet.PodLogsDir, cfg.Kubelet.StaticPodPath = filepath.Join(dir, "logs"), filepath.Join(dir, "manifests")
	cfg.Kubelet.EvictionHard = map[string]string{"memory.available": "100Mi"} // the machine's disk may be full
	return cfg
}

func (g *testAgent) start() {
	ctx, stop := context.WithCancel(context.Background())
	g.stop, g.done = stop, make(chan error, 1)
	go func() { g.done <- g.agent.Run(ctx) }()
}

func (g *testAgent) end(t *testing.T) {
	t.Helper()
	g.stop()
	select {
	case err := <-g.done:
		require.NoError(t, err)
	case <-time.After(shortestWait):
		t.Fatal("the agent did not stop")
	}
}

// running waits until the pod runs and all health checks pass. It returns the ID of the pod's
// container with its restart count.
func (g *testAgent) running(t *testing.T) (id string) {
	t.Helper()
	wait(t, 40*time.Second, "the pod runs", func() error {
		for _, check := range g.agent.Health() {
			if !check.OK {
				return errors.New(check.Message)
			}
		}
		pods, _, err := g.agent.Pods()
		if err != nil {
			return err
		}
		if len(pods) != 1 || len(pods[0].Status.ContainerStatuses) != 1 || pods[0].Status.ContainerStatuses[0].State.Running == nil {
			return fmt.Errorf("%d pods", len(pods))
		}
		c := pods[0].Status.ContainerStatuses[0]
		id = fmt.Sprintf("%s, %d restarts", c.ContainerID, c.RestartCount)
		return nil
	})
	return id
}

// startAndStop starts and stops the agents repeatedly, all at the same time. Each run finds the
// same containers, and each stop leaves no goroutine and no open file of the agents in the process.
func startAndStop(t *testing.T, guests []*testAgent) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	var started goleak.Option // includes the containers' programs if those are goroutines
	var ids []string
	var files map[string]string
	for round := range 20 {
		for _, g := range guests {
			g.start()
		}
		for i, g := range guests {
			id := g.running(t)
			if round == 0 {
				ids = append(ids, id)
			}
			require.Equal(t, ids[i], id, "round %d", round)
		}
		for _, g := range guests {
			g.end(t)
		}
		if round == 0 {
			files = openFiles(t)
			goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("github.com/podwright/podwright/cri/fake.(*task).run"))
			started = goleak.IgnoreCurrent()
		}
	}
	wait(t, 10*time.Second, "no additional file is open", func() error {
		if now := openFiles(t); len(now) > len(files) {
			maps.DeleteFunc(now, func(fd, _ string) bool { return files[fd] != "" })
			return fmt.Errorf("%d more: %v", len(now), now)
		}
		return nil
	})
	goleak.VerifyNone(t, started)

	// Without manifests the agents remove their pods, and the pods' folders last.
	for _, g := range guests {
		require.NoError(t, os.Remove(filepath.Join(g.manifests, "stays.yaml")))
		g.start()
	}
	for _, g := range guests {
		wait(t, 30*time.Second, "the pod is removed", func() error { return emptyFolder(g.pods) })
	}
	for _, g := range guests {
		g.end(t)
	}
	goleak.VerifyNone(t, before)
}

func openFiles(t *testing.T) map[string]string {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	out := map[string]string{}
	for _, e := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			out[e.Name()] = target
		}
	}
	return out
}

// Two agents fit in one process, on runtimes in memory, and can be started and stopped repeatedly.
func TestTwoAgentsInOneProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("starts and stops two agents 20 times")
	}
	var guests []*testAgent
	for i := range 2 {
		rt, err := fake.New(fake.Config{AnyImage: true})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, rt.Close()) })
		connect := func(context.Context) (*agent.Connection, error) {
			return &agent.Connection{Runtime: rt, Images: rt, Name: "fake", Close: func() error { return nil }}, nil
		}
		guests = append(guests, newTestAgent(t, fmt.Sprintf("guest-%d", i), "testprog", connect))
	}
	startAndStop(t, guests)
}
