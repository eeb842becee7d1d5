package syncloop_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/podworkers"
)

// An agent to which anything happens: in the end it does what is desired. A run
// that fails prints the script that replays it.
func TestAgentRandom(t *testing.T) {
	for seed := range uint64(60) {
		script := randomScript(rand.New(rand.NewPCG(seed, 1)))
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t)
			defer n.close()
			defer func() {
				if t.Failed() {
					t.Logf("seed %d:\n%s", seed, strings.Join(script, "\n"))
				}
			}()
			for _, line := range script {
				n.command(line)
			}
			n.mu.Lock()
			n.bad, n.cleaner = 0, ""
			rejected := map[string]bool{}
			for uid, answer := range n.answers {
				if rejected[string(uid)] = strings.HasPrefix(answer, "refuse"); !rejected[string(uid)] {
					delete(n.answers, uid)
				}
			}
			n.mu.Unlock()
			n.command("set file a b s1")
			n.command("set api c d")
			n.command("wait 1m")
			n.command("wait 10s")
			requireSettled(t, n, rejected)
		})
		if t.Failed() {
			return
		}
	}
}

// requireSettled looks whether exactly the pods a, b, c, d and s1 have workers. A
// pod that was rejected meanwhile may have started before.
func requireSettled(t *testing.T, n *node, rejected map[string]bool) {
	t.Helper()
	desired := map[string]bool{"a": true, "b": true, "c": true, "d": true, "s1": true}
	for _, s := range n.workers.Pods() {
		require.True(t, desired[string(s.UID)], "%s", s)
		require.Equal(t, podworkers.StateSyncing, s.State, "%s", s)
		delete(desired, string(s.UID))
	}
	unadmitted := map[string]bool{}
	for _, u := range n.handler.Unadmitted() {
		require.True(t, u.Rejected, "%s: %v", u.Pod.UID, u.Err)
		unadmitted[string(u.Pod.UID)] = true
	}
	for uid := range desired {
		require.True(t, unadmitted[uid], "%s does not run", uid)
	}
	st := n.loop.Status()
	require.Zero(t, st.Stuck+st.WaitingPods+st.WaitingSources)
	require.NoError(t, st.HousekeepingErr)
}

func randomScript(random *rand.Rand) []string {
	one := func(list ...string) string { return list[random.IntN(len(list))] }
	some := func(list ...string) string {
		var chosen []string
		for _, s := range list {
			if random.IntN(2) == 0 {
				chosen = append(chosen, s)
			}
		}
		return strings.Join(chosen, " ")
	}
	script := []string{"pod s1 name=s", "pod s2 name=s", one("option per-source", "option sources=file,api"), one("option order=priority", "option order=dependency")}
	for i := range 10 + random.IntN(50) {
		uid := one("a", "b", "c", "d", "s1", "s2")
		script = append(script, one(
			"set file "+some("a", "b", one("s1", "s2")),
			"set api "+some("c", "d"),
			fmt.Sprintf("pod %s rev=%d", uid, i),
			fmt.Sprintf("pod %s needs=%s", uid, one("a", "b", "s")),
			"answer "+uid+" "+one("yes", "yes", "refuse Because", "hold later", "panic now"),
			"emit "+one("pod-dirty", "container-died", "sync-due", "readiness-changed")+" "+uid,
			"runtime "+some("a", "c", "s1", "stray"),
			one("down", "down 4", "up", "up"),
			"cleaner "+one("hang 3s", "fail no", "panic oh"),
			"on "+uid+" "+one("SyncPod", "SyncTerminatingPod", "SyncTerminatedPod")+": "+one("no, ok", "5s ok", "300ms no, 1s ok"),
			"wait "+one("100ms", "1s", "3s", "15s"),
			one("restart", "wait 2s", "wait 2s"),
		))
	}
	return append(script, "runtime")
}
