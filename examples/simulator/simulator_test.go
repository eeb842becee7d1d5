package simulator

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/fake"
)

var (
	nodes   = flag.Int("nodes", 3, "number of nodes")
	perNode = flag.Int("pods", 20, "number of pods of each node")
	runs    = flag.Duration("for", 10*time.Minute, "virtual time")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var programs = map[string]fake.Program{
	"serve": func(ctx context.Context, _ *fake.Process) int { <-ctx.Done(); return 0 },
	"crash": func(context.Context, *fake.Process) int { time.Sleep(20 * time.Second); return 3 },
	"job":   func(context.Context, *fake.Process) int { time.Sleep(time.Minute); return 0 },
}

// phases are the expected phases of pods by program.
var phases = map[string]v1.PodPhase{"serve": v1.PodRunning, "crash": v1.PodRunning, "job": v1.PodSucceeded}

// pod returns a pod with one of the programs: 5% crash, 10% are jobs, the rest serve.
func pod(node, i int) *v1.Pod {
	uid := fmt.Sprintf("%d-%d", node, i)
	program, policy := "serve", v1.RestartPolicyAlways
	switch {
	case i%20 == 1:
		program = "crash"
	case i%10 == 2:
		program, policy = "job", v1.RestartPolicyNever
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: program + "-" + uid, Namespace: "default", UID: types.UID(uid), Labels: map[string]string{"app": program}},
		Spec: v1.PodSpec{
			RestartPolicy: policy, DNSPolicy: v1.DNSNone,
			Containers: []v1.Container{{Name: "main", Image: "example.org/" + program + ":1", Command: []string{program}}},
		},
	}
}

// A fleet runs for a while, with a restart of all agents in the middle. Then it is drained.
func TestFleet(t *testing.T) {
	dir, began := t.TempDir(), time.Now()
	synctest.Test(t, func(t *testing.T) {
		fleet := make([]*Node, *nodes)
		for i := range fleet {
			n, err := NewNode(filepath.Join(dir, fmt.Sprint(i)), programs)
			require.NoError(t, err)
			defer n.Runtime.Close()
			var desired []*v1.Pod
			for k := range *perNode {
				desired = append(desired, pod(i, k))
			}
			require.NoError(t, n.Set(desired))
			fleet[i] = n
		}
		each := func(f func(n *Node) error) {
			for _, n := range fleet {
				require.NoError(t, f(n))
			}
		}
		each(func(n *Node) error { return n.Start(t.Context()) })
		time.Sleep(*runs / 2)
		each((*Node).Stop)
		each(func(n *Node) error { return n.Start(t.Context()) })
		time.Sleep(*runs / 2)

		restarts := map[string]int32{}
		each(func(n *Node) error {
			for _, p := range n.pods {
				app, s := p.Labels["app"], n.Syncer.Statuses().Get(p.UID)
				require.Equal(t, phases[app], s.Phase, p.Name)
				restarts[app] += s.ContainerStatuses[0].RestartCount
			}
			return nil
		})
		require.Zero(t, restarts["serve"]+restarts["job"], "a new agent restarts no container")
		require.Positive(t, restarts["crash"])
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		t.Logf("%d pods on %d nodes: %v of virtual time, heap %d MiB, %d goroutines, %d restarts", *nodes**perNode, *nodes, *runs, m.HeapAlloc>>20, runtime.NumGoroutine(), restarts["crash"])

		each(func(n *Node) error { return n.Set(nil) })
		time.Sleep(2 * time.Minute)
		each(func(n *Node) error {
			left, err := n.Runtime.ListPodSandbox(t.Context(), nil)
			require.Empty(t, left)
			return err
		})
		each((*Node).Stop)
	})
	t.Logf("%v of real time", time.Since(began).Round(time.Millisecond))
}
