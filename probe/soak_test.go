package probe_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/probe"
)

// soak is a node of pods whose life is random, and a Prober that checks each call.
type soak struct {
	*rig
	mu      sync.Mutex
	rnd     *rand.Rand
	busy    map[string]bool
	leaving map[types.UID]bool
	calls   map[probe.Handler]int
	now     map[probe.Handler]int
}

var soakBudgets = map[probe.Handler]int{probe.Exec: 3, probe.HTTPGet: 5, probe.TCPSocket: 1, probe.GRPC: 2}

func (k *soak) roll(n int) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rnd.IntN(n)
}

// Probe checks what must hold of each execution, and takes and finds anything.
func (k *soak) Probe(ctx context.Context, t probe.Target) (probe.Result, error) {
	h := probe.HandlerOf(t.Probe)
	name := fmt.Sprint(t.Pod.UID, t.Container.Name, t.Type)
	k.mu.Lock()
	k.calls[h]++
	k.now[h]++
	if k.busy[name] {
		k.t.Errorf("%s runs twice at a time", name)
	}
	if k.now[h] > soakBudgets[h] {
		k.t.Errorf("%d executions of %s", k.now[h], h)
	}
	if k.leaving[t.Pod.UID] && t.Type != probe.Readiness {
		k.t.Errorf("%s is terminating", name)
	}
	k.busy[name] = true
	dice := k.rnd.IntN(100)
	latency := time.Duration(k.rnd.IntN(1200)) * time.Millisecond
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.now[h]--
		delete(k.busy, name)
	}()
	deadline, ok := ctx.Deadline()
	if n := runtime.NumGoroutine(); n > 40 { // 11 are the Manager's at most
		k.t.Errorf("%d goroutines", n)
	}
	if !ok || time.Until(deadline) > t.Timeout {
		k.t.Errorf("%s has until %v", name, deadline)
	}
	if dice < 2 { // it ignores its context
		time.Sleep(5 * time.Second)
		return probe.Result{Verdict: probe.Success}, nil
	}
	timer := time.NewTimer(latency)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return probe.Result{Verdict: probe.Failure}, nil
	}
	switch {
	case dice < 5:
		panic("dice")
	case dice < 15:
		return probe.Result{}, errors.New("broken")
	case dice < 45:
		return probe.Result{Verdict: probe.Failure}, nil
	case dice < 50:
		return probe.Result{Verdict: probe.Warning}, nil
	}
	return probe.Result{Verdict: probe.Success}, nil
}

// TestSoak lets 40 pods live for half an hour of virtual time, or less with -short,
// in which containers come and go, pods terminate, vanish and come again, everybody
// triggers, and the Prober misbehaves.
func TestSoak(t *testing.T) {
	seeds, lasts := uint64(2), 30*time.Minute
	if testing.Short() {
		seeds, lasts = 1, 15*time.Minute
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { soakOnce(t, seed, lasts) }) })
	}
}

func soakOnce(t *testing.T, seed uint64, lasts time.Duration) {
	k := &soak{
		rnd: rand.New(rand.NewPCG(seed, 3)), busy: map[string]bool{}, leaving: map[types.UID]bool{},
		calls: map[probe.Handler]int{}, now: map[probe.Handler]int{},
	}
	k.rig = newRig(t, func(c *probe.Config) {
		c.Budgets, c.AgentStart = soakBudgets, time.Now()
		for h := range soakBudgets {
			c.Probers[h] = k
		}
	})
	k.start()
	uids := make([]types.UID, 40)
	for i := range uids {
		uids[i] = types.UID(fmt.Sprintf("pod-%d", i))
	}
	instance := 0
	for end := time.Now().Add(lasts); time.Now().Before(end); time.Sleep(time.Duration(k.roll(2000)) * time.Millisecond) {
		uid := uids[k.roll(len(uids))]
		switch k.roll(10) {
		case 0, 1, 2, 3, 4:
			if !k.leaving[uid] {
				instance++
				k.sync(uid, instance)
			}
		case 5, 6:
			k.Trigger(uid, "web")
		case 7:
			k.StopLivenessAndStartup(uid)
			synctest.Wait() // what was cut off has noticed
			k.mu.Lock()
			k.leaving[uid] = k.status(uid) != nil
			k.mu.Unlock()
			k.checkLeaving(uid)
		case 8:
			if k.leaving[uid] {
				k.RemovePod(uid)
				k.mu.Lock()
				delete(k.leaving, uid)
				k.mu.Unlock()
				k.forget(uid)
			}
		case 9:
			k.Explain(uid)
			k.Pools()
		}
	}
	k.stop()
	require.NoError(t, <-k.done)
	for h := range soakBudgets {
		require.Greater(t, k.calls[h], 100, h)
		require.Zero(t, k.now[h], h)
	}
	require.Empty(t, k.busy)
	k.checkTold(uids)
}

// sync is a sync of a pod with one container, sometimes with another instance.
func (k *soak) sync(uid types.UID, instance int) {
	spec := func(delay int32) *v1.Probe {
		p := every(int32(1 + k.roll(4)))
		p.FailureThreshold, p.InitialDelaySeconds = 2, delay
		p.ProbeHandler = handler([]probe.Handler{probe.Exec, probe.HTTPGet, probe.TCPSocket, probe.GRPC}[k.roll(4)])
		return p
	}
	pod := podOf(uid, container("web", probes{probe.Liveness: spec(3), probe.Readiness: spec(0), probe.Startup: spec(0)}))
	old := k.status(uid)
	c := running("web", fmt.Sprintf("fake://%d", instance))
	c.Started = new(k.roll(3) > 0)
	if old != nil && k.roll(3) > 0 { // the same instance, later
		c = *old.ContainerStatuses[0].DeepCopy()
		switch k.roll(6) {
		case 0:
			c.State = exited("web", "", 1).State
		case 1, 2:
			c.Started = new(true)
		}
	}
	k.store(pod, c)
	require.NoError(k.t, k.AddPod(pod))
}

func (k *soak) forget(uid types.UID) {
	k.rig.mu.Lock()
	defer k.rig.mu.Unlock()
	delete(k.statuses, uid)
}

func (k *soak) checkLeaving(uid types.UID) {
	for _, r := range k.Results(uid) {
		require.Equal(k.t, probe.Readiness, r.Type)
	}
}

// checkTold compares the last change told of each probe with the result that is
// stored: nothing was lost.
func (k *soak) checkTold(uids []types.UID) {
	told := map[string]probe.Verdict{}
	for _, c := range k.changeList() {
		told[fmt.Sprint(c.UID, c.ContainerID, c.Type)] = c.Result
	}
	results := 0
	for _, uid := range uids {
		for _, r := range k.Results(uid) {
			results++
			require.Equal(k.t, r.Result, told[fmt.Sprint(uid, r.ContainerID, r.Type)], "%s %+v", uid, r)
		}
	}
	require.NotZero(k.t, results)
}
