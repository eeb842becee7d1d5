package cluster_test

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/examples/tools/testbed/tb"
	"github.com/podwright/podwright/examples/tools/testbed/tb/controlplane"
)

var (
	chaosKills = flag.Int("kills", 20, "number of kills of the kubelet in TestChaos; 0 skips the test")
	chaosSeed  = flag.Uint64("seed", 0, "seed of the choices of TestChaos; default: the time. The progress at each choice depends on the machine")
)

const (
	calmPods, exitPods, churnPods = 3, 2, 6
	// A kubelet of TestChaos is killed after longestLife at most. A slow machine starts no pod in
	// that time, so that every second kubelet lives up to longLife.
	longestLife = 1500 * time.Millisecond
	longLife    = 4 * longestLife
	// chaosDisk is the size of the file system of the root folder.
	chaosDisk = "size=16m"
)

// chaos is a node, the faults and changes applied to it, and the desired pods.
type chaos struct {
	*node
	*proxy
	*chaosHistory
	clock *tb.Clock // the runtime's clock, as the kubelet sees it
	rand  *rand.Rand
	// desired are the pods by name; codes has the exit codes of finishing pods.
	desired map[string]bool
	codes   map[string]int
	fault   *chaosFault
	faults  map[string]int
}

// kill -9 at random moments, under random faults, while pods are created, changed and deleted and
// programs exit, does not affect untouched pods. In the end exactly the desired pods run, once
// each, and no status went back in time. chaosHistory checks its rules continuously.
//
// A longer run: -kills 200 -timeout 30m. To repeat a run: -seed with the printed number.
func TestChaos(t *testing.T) {
	if *chaosKills == 0 {
		t.Skip("-kills 0")
	}
	seed := cmp.Or(*chaosSeed, uint64(time.Now().UnixNano()))
	onRuntimes(t, func(t *testing.T, plane controlplane.Handle, rt tb.Runtime) {
		t.Logf("-seed %d -kills %d", seed, *chaosKills)
		c := newChaos(t, plane, rt, configDir(t, "crashLoopBackOff: {maxContainerRestartPeriod: 1s}\n"))
		w := c.watchPods(t)
		c.setUp(t)
		begin := time.Now()
		for i := range uint64(*chaosKills) {
			c.rand = rand.New(rand.NewPCG(seed, 2*i))
			c.changeUntilKill(t)
			c.kill(t)
			if c.rand.IntN(3) == 0 {
				c.step(t)
			}
			c.rand = rand.New(rand.NewPCG(seed, 2*i+1)) // the faults depend only on the seed, not on the number of earlier choices
			c.changeFault(t)
			c.start(t)
		}
		c.endFault(t)
		t.Logf("%d kills in %s, %d containers ran, faults: %v", *chaosKills, time.Since(begin).Round(time.Second), len(c.ran), c.faults)
		c.until(t, "exactly the desired pods run", func() error {
			c.unstick(t)
			return c.observeThen(c.converged(t))
		})
		require.NoError(t, c.violations, "violations during the test")
		for name, code := range c.codes {
			if c.desired[name] {
				requireOneExit(t, w, name, code)
			}
		}
		c.deleteAll(t)
		if c.stuck.Restarts == 0 { // such a restart affects all pods
			w.requireUndisturbed(t, untouched)
		}
	})
}

func untouched(pod *v1.Pod) bool { return strings.HasPrefix(pod.Name, "calm-") }

func newChaos(t *testing.T, plane controlplane.Handle, rt tb.Runtime, flags ...string) *chaos {
	c := &chaos{desired: map[string]bool{}, codes: map[string]int{}, faults: map[string]int{}}
	c.clock = rt.WithClock(t)
	flags = append(flags, "--container-runtime-endpoint="+c.clock.Endpoint)
	c.node = newStoppedNode(t, plane, rt, func(n *node) {
		root := filepath.Join(n.dir, "root")
		require.NoError(t, os.Mkdir(root, 0o755))
		require.NoError(t, unix.Mount("tmpfs", root, "tmpfs", 0, chaosDisk))
		t.Cleanup(func() {
			if err := unix.Unmount(root, unix.MNT_DETACH); !errors.Is(err, unix.EINVAL) { // it is unmounted
				require.NoError(t, err)
			}
		})
		c.proxy = newProxy(t, plane, plane.NodeKubeconfig(t, n.name, 0))
		n.URL = c.proxy.URL
	}, flags...)
	c.chaosHistory = newChaosHistory(c.node)
	c.start(t)
	c.nodeReady(t)
	return c
}

func (c *chaos) setUp(t *testing.T) {
	for i := range calmPods {
		c.desired[fmt.Sprintf("calm-%d", i)] = true
		c.apply(t, strings.Replace(wellPod, "name: well", fmt.Sprintf("name: calm-%d", i), 1))
	}
	for i := range exitPods {
		c.create(t, fmt.Sprintf("exit-%d", i), "")
	}
	for i := range churnPods / 2 {
		c.create(t, fmt.Sprintf("churn-%d", i), "")
	}
	c.until(t, "all pods run", c.converged(t))
}

// create creates a pod that exits on order; rest extends its spec. The order of a pod with an exit
// code in codes persists: a container whose start was interrupted may run for a moment, although
// the runtime reports that it never started.
func (c *chaos) create(t *testing.T, name, rest string) {
	t.Helper()
	code, forget := c.codes[name], ""
	if code == 0 {
		code, forget = 3, "rm /h/"+name+";"
	}
	c.apply(t, boundPod(name, fmt.Sprintf(`
  hostNetwork: true
  %[3]s
  containers:
  - {name: c, image: BUSYBOX, command: [sh, -c, 'trap "exit 0" TERM; while ! test -e /h/%[1]s; do sleep 0.1; done; %[5]s exit %[2]d'], volumeMounts: [{name: h, mountPath: /h}, {name: e, mountPath: /e}]}
  volumes: [{name: h, hostPath: {path: %[4]s}}, {name: e, emptyDir: {medium: Memory}}]`, name, code, rest, c.dir, forget)))
	c.desired[name] = true
}

// orderExit orders the program of a pod to exit, unless an earlier order is pending.
func (c *chaos) orderExit(t *testing.T, name string) {
	t.Helper()
	file := filepath.Join(c.dir, name)
	if _, err := os.Stat(file); err == nil {
		return // the earlier order is unread
	}
	c.causes[name]++
	require.NoError(t, os.WriteFile(file, nil, 0o600))
}

func (c *chaos) step(t *testing.T) {
	t.Helper()
	switch n := c.rand.IntN(6); n {
	case 0:
		c.orderExit(t, fmt.Sprintf("exit-%d", c.rand.IntN(exitPods)))
	case 1: // one more pod that exits for good
		name := fmt.Sprintf("ends-%d", len(c.codes))
		c.codes[name] = 1 + c.rand.IntN(100)
		c.create(t, name, "restartPolicy: Never")
		c.orderExit(t, name)
	default:
		name := fmt.Sprintf("churn-%d", c.rand.IntN(churnPods))
		switch {
		case !c.desired[name] && c.node.get(t, "pod", name, "{.metadata.name}") == "":
			c.create(t, name, "")
		case c.desired[name] && n < 4:
			c.do(t, "delete", "pod", name, "--wait=false")
			delete(c.desired, name)
		case c.desired[name]:
			c.do(t, "label", "pod", name, "--overwrite", "version="+strconv.Itoa(c.rand.Int()))
		}
	}
}

// changeUntilKill makes random changes during one life of the kubelet.
func (c *chaos) changeUntilKill(t *testing.T) {
	t.Helper()
	longest := longestLife
	if c.rand.IntN(2) == 0 {
		longest = longLife
	}
	deadline := time.Now().Add(time.Duration(c.rand.Int64N(int64(longest))))
	for next := c.rand.IntN(10); ; next-- {
		if next == 0 {
			c.step(t)
			next = 1 + c.rand.IntN(10)
		}
		c.observe()
		if time.Now().After(deadline) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// deleteAll deletes all pods and checks that they have no remains.
func (c *chaos) deleteAll(t *testing.T) {
	t.Helper()
	c.do(t, "delete", "pods", "--all", "--wait=false")
	c.until(t, "the pods have no remains", func() error {
		c.unstick(t)
		folders, err := filepath.Glob(c.root + "/pods/*")
		logs, logsErr := filepath.Glob(c.dir + "/logs/*")
		mounts, mountsErr := mountsBelow(c.root + "/")
		var pods error
		if have := c.pods(t); len(have) > 0 {
			pods = fmt.Errorf("%d pods", len(have))
		}
		return errors.Join(err, logsErr, mountsErr, pods, c.empty(), listError("folders", folders), listError("logs", logs), listError("mounts", mounts), listError("cgroups", tb.PodCgroups("/podwright-"+c.name)))
	})
}
