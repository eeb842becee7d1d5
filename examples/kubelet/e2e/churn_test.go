package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

const (
	// churnKills is the environment variable with the number of kills on each runtime.
	churnKills        = "PODWRIGHT_CHURN_KILLS"
	defaultChurnKills = 20
	// churnSeed is the environment variable with the seed of all random choices. Runs with the same
	// seed make the same choices, but the progress of kubelet and runtime at each kill varies.
	churnSeed = "PODWRIGHT_CHURN_SEED"

	// The 20 pods: steadyPods never change, exitPods exit on order, job is not restarted after its
	// exit, and churnPods are added, edited and removed.
	steadyPods, exitPods, churnPods = 4, 2, 13
	job                             = "job-0"
	// inPlacePods of churnPods have a fixed UID: a change of the image replaces one of their
	// containers, other changes replace none.
	inPlacePods = 4
	// longestLife bounds the time between start and kill, unless the kill follows an action of the
	// kubelet (see killTime).
	longestLife = 1500 * time.Millisecond
)

// kill -9 at random moments causes no unneeded restart while manifests are added, edited, broken
// and removed and programs exit. The test checks the rules continuously (see history) and at the
// end (see converged): exactly the containers of the manifests run, each once, and no container
// that was seen running was replaced except after an edit, a removal, or an exit of its program.
// The programs count their own starts.
//
// The only allowed start without such a cause replaces a container whose start was interrupted by
// a kill: the runtime lists it as exited although it never ran. Such starts are allowed only for
// pods with a container that did not run at the kill.
//
// A longer run:
//
//	PODWRIGHT_CHURN_KILLS=200 go run ./examples/tools/testbed -- go test -race -timeout 30m -run TestKilledDuringChurn -v ./examples/kubelet/e2e
func TestKilledDuringChurn(t *testing.T) {
	seed := variable(t, churnSeed, uint64(time.Now().UnixNano()))
	kills := int(variable(t, churnKills, defaultChurnKills))
	const config = "crashLoopBackOff: {maxContainerRestartPeriod: 1s}"
	onRuntimes(t, config, func(t *testing.T, s *scene) {
		t.Logf("%s=%d %s=%d", churnSeed, seed, churnKills, kills)
		c := newChurn(t, s, seed)
		begin := time.Now()
		c.setUp(t)
		t.Logf("all pods run after %s", time.Since(begin).Round(time.Millisecond))
		steadyIsUntouched := c.keepSteady(t)

		begin = time.Now()
		before := len(c.ran)
		for i := range kills {
			c.changeUntilKill(t)
			c.killAndChange(t)
			if i == kills/4 {
				c.orderExit(t, job)
			}
			s.start(t)
		}
		t.Logf("%d kills in %s, %d of them while a container did not run; %d versions of pods, %d containers ran", kills,
			time.Since(begin).Round(time.Millisecond), c.cutKills, c.version, len(c.ran)-before)
		require.Greater(t, len(c.ran)-before, kills/20, "too few containers started")

		begin = time.Now()
		c.waitConverged(t)
		t.Logf("converged after %s", time.Since(begin).Round(time.Millisecond))
		consistently(t, 2*time.Second, "no further change", c.watchThen(c.converged))
		c.exitWithoutAgent(t)
		steadyIsUntouched(t)
		c.removeAll(t)
		t.Logf("%s; %d interrupted starts, %d restarts of the runtime", c.history, len(c.cutStarts), c.stuck.Restarts)
	})
}

// variable returns the number in an environment variable, or otherwise if it is empty.
func variable(t *testing.T, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, name)
	return n
}

// churn is a script of random changes with the resulting desired pods.
type churn struct {
	*scene
	*history
	rand *rand.Rand
	// orders is the folder shared by the test and the programs.
	orders string
	// desired has the pods by name; tallies has current and former pods by start.
	desired map[string]*desiredPod
	tallies map[string]*tally
	// writes and removals count the changes of the manifests, by pod.
	writes, removals map[string]int
	// inPlace has the last tallies of pods with a fixed UID.
	inPlace map[string]*tally
	version int
	// collected is true if garbage was collected after the last change.
	collected bool
	// cutKills counts the kills at which some container did not run.
	cutKills int
}

// desiredPod is the desired state of one pod name.
type desiredPod struct {
	pod    *v1.Pod
	broken bool // the manifest is invalid now
	*tally
}

// tally counts the allowed restarts of a pod's containers.
type tally struct {
	// start is the file to which the second container writes its starts.
	start string
	// edits counts changes in place, exits the ordered exits, and cuts the kills at which some
	// container did not run.
	edits, exits, cuts int
	// earlierRestarts is the number of allowed restarts of a pod that returns with the same UID:
	// the kubelet may have missed its absence.
	earlierRestarts int
	// ordered is the number of the last start that was ordered to exit.
	ordered int
}

// allowedRestarts returns the allowed number of restarts of one container of the pod.
func (t *tally) allowedRestarts() int { return t.edits + t.exits + t.cuts + t.earlierRestarts }

func newChurn(t *testing.T, s *scene, seed uint64) *churn {
	c := &churn{
		scene: s, rand: rand.New(rand.NewPCG(seed, 0)), orders: s.dir + "/orders",
		desired: map[string]*desiredPod{}, tallies: map[string]*tally{}, inPlace: map[string]*tally{},
		writes: map[string]int{}, removals: map[string]int{},
	}
	c.history = newHistory(s)
	c.history.maxRestarts = c.maxRestarts
	c.history.recreated = func(name string) bool { return c.removals[name] > 0 }
	require.NoError(t, os.Mkdir(c.orders, 0o755))
	return c
}

// maxRestarts returns how many times a container may have been replaced by one with the same UID,
// name and image.
func (c *churn) maxRestarts(name, container string) int {
	removals, writes := c.removals[name], c.writes[name]
	d := c.desired[name]
	switch {
	case c.inPlace[name] != nil && container == "main":
		return removals + writes // each write may change the image back
	case c.inPlace[name] != nil:
		return removals
	case d == nil || name == job || container == "main":
		return 0
	default:
		return d.exits
	}
}

// setUp starts all pods except half of the changing ones.
func (c *churn) setUp(t *testing.T) {
	var names []string
	for i := range steadyPods {
		names = append(names, fmt.Sprintf("steady-%d", i))
	}
	for i := range exitPods {
		names = append(names, fmt.Sprintf("exit-%d", i))
	}
	names = append(names, job)
	for i := range churnPods / 2 {
		names = append(names, churnName(i*2))
	}
	for _, name := range names {
		c.writeNext(t, name)
	}
	for _, name := range names {
		c.running(t, name)
	}
	c.requireNoError(t, c.watch())
}

// requireNoError fails the test on an error and logs the runtime's state.
func (c *churn) requireNoError(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	w, lookErr := c.runtimeState()
	t.Fatalf("after %d starts of the kubelet: %v\n\nthe runtime has %s %v", c.launches, err, w, lookErr)
}

func churnName(i int) string { return fmt.Sprintf("churn-%d", i) }

// keepSteady makes the history fail on any change of the steady pods, and returns a check of the
// statuses that the kubelet reports for them. It breaks the manifest of one steady pod.
func (c *churn) keepSteady(t *testing.T) func(t *testing.T) {
	t.Helper()
	c.breakManifest(t, "steady-3")
	require.True(t, c.desired["steady-3"].broken)
	c.history.untouched = map[string]string{}
	for name, id := range c.mustRuntimeState(t).ids() {
		if strings.HasPrefix(name, "steady-") {
			c.history.untouched[name] = id
		}
	}
	require.Len(t, c.history.untouched, 2*steadyPods)
	var pods []*v1.Pod
	for i := range steadyPods {
		pods = append(pods, c.running(t, fmt.Sprintf("steady-%d", i)))
	}
	return func(t *testing.T) {
		t.Helper()
		for i, was := range pods {
			require.NoError(t, c.scene.untouched(was, fmt.Sprintf("steady-%d", i)))
		}
	}
}

// changeUntilKill makes random changes until the moment of the kill.
func (c *churn) changeUntilKill(t *testing.T) {
	t.Helper()
	begin := time.Now()
	reached, deadline := c.killTime(begin)
	after := time.Duration(c.rand.IntN(60)) * time.Millisecond
	next := begin.Add(time.Duration(c.rand.IntN(150)) * time.Millisecond)
	tick := time.NewTicker(poll / 2)
	defer tick.Stop()
	for time.Now().Before(deadline) {
		if time.Now().After(next) {
			c.step(t)
			next = time.Now().Add(time.Duration(c.rand.IntN(400)) * time.Millisecond)
		}
		c.requireNoError(t, c.watch())
		if reached != nil && reached() {
			reached, deadline = nil, time.Now().Add(after)
		}
		<-tick.C
	}
}

// killTime draws the moment of the kill: a random time; shortly after a number of changes, most of
// them starts and ends of containers; or shortly after containers began to run, so that a kubelet
// does more than repeat the work of its predecessor.
func (c *churn) killTime(begin time.Time) (reached func() bool, deadline time.Time) {
	changes, ran := c.changes, len(c.ran)
	switch c.rand.IntN(3) {
	case 0:
		return nil, begin.Add(time.Duration(c.rand.Int64N(int64(longestLife))))
	case 1:
		acts := 1 + c.rand.IntN(20)
		return func() bool { return c.changes-changes >= acts }, begin.Add(longestLife)
	default:
		starts := 1 + c.rand.IntN(3)
		return func() bool { return len(c.ran)-ran >= starts }, begin.Add(20 * time.Second)
	}
}

// killAndChange kills the kubelet and makes changes before the next start.
func (c *churn) killAndChange(t *testing.T) {
	t.Helper()
	c.kill(t)
	c.requireNoError(t, c.watch())
	cut := false
	for name, d := range c.desired {
		if name == job {
			continue // all its starts are over
		}
		if c.now[name+"/main"] == 0 || c.now[name+"/second"] == 0 {
			cut = true
			d.cuts++
		}
	}
	if cut {
		c.cutKills++
	}
	if c.rand.IntN(3) == 0 {
		c.step(t)
		c.step(t)
	}
}

func (c *churn) step(t *testing.T) {
	t.Helper()
	if c.rand.IntN(8) == 0 {
		c.orderExit(t, fmt.Sprintf("exit-%d", c.rand.IntN(exitPods)))
		return
	}
	name := churnName(c.rand.IntN(churnPods))
	switch n := c.rand.IntN(10); {
	case c.desired[name] == nil || n < 4:
		c.writeNext(t, name)
	case n < 7:
		c.removeManifest(t, name+".yaml")
		delete(c.desired, name)
		c.removals[name]++
	case n < 8:
		c.writeManifest(t, name+".yaml", c.desired[name].pod) // unchanged content
		c.desired[name].broken = false
	default:
		c.breakManifest(t, name)
	}
}

// waitConverged waits until exactly the containers of the manifests run.
func (c *churn) waitConverged(t *testing.T) {
	t.Helper()
	c.stuck.Skip(c.log(t))
	converged := c.watchThen(c.converged)
	// Below one minute, so that the periodic collection cannot be the remover of deleted pods.
	c.waitUnstuck(t, 50*time.Second, "exactly the pods of the manifests run", converged)
}

// exitWithoutAgent ends a program while no kubelet runs. The next kubelet restarts only that
// program and removes all garbage.
func (c *churn) exitWithoutAgent(t *testing.T) {
	t.Helper()
	const name = "exit-0/second"
	before := c.mustRuntimeState(t).ids()
	c.kill(t)
	c.orderExit(t, "exit-0")
	wait(t, 40*time.Second, "the program exits", func() error {
		if now := c.mustRuntimeState(t).ids(); now[name] == before[name] {
			return fmt.Errorf("%s still runs", now[name])
		}
		return nil
	})
	c.collected = true
	c.start(t)
	c.waitUnstuck(t, 40*time.Second, "the program runs again without leftovers", c.watchThen(c.converged))
	after := c.mustRuntimeState(t).ids()
	was, is := attempt(t, before[name]), attempt(t, after[name])
	require.Equal(t, was+1, is, "one restart per exit")
	delete(before, name)
	delete(after, name)
	require.Equal(t, before, after)
}

// attempt returns the restart count in an ID of runtimeState.ids.
func attempt(t *testing.T, id string) int {
	t.Helper()
	_, text, _ := strings.Cut(id, "attempt ")
	n, err := strconv.Atoi(strings.TrimSuffix(text, ";"))
	require.NoError(t, err, id)
	return n
}

// removeAll removes all manifests and waits until the runtime has no remains of their pods.
func (c *churn) removeAll(t *testing.T) {
	t.Helper()
	c.history.untouched = nil
	for name := range c.desired {
		c.removeManifest(t, name+".yaml")
	}
	c.waitUnstuck(t, time.Minute, "all pods are removed", c.empty)
}
