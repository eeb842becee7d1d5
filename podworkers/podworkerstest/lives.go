package podworkerstest

import (
	"fmt"
	"math/rand/v2"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// needs are the optional functions of a Subject that a life uses.
type needs struct{ restart, exit, failStarts bool }

func (a *agent) lacks(n needs) bool {
	return n.restart && a.s.Restart == nil || n.exit && a.s.Exit == nil || n.failStarts && a.s.FailStarts == nil
}

// standardLife is a sequence of events of one pod "a". All pods are removed afterwards.
type standardLife struct {
	name  string
	needs needs
	play  func(a *agent)
}

var policies = []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever}

func lives() []standardLife {
	out := []standardLife{
		{"a pod runs and stops", needs{}, func(a *agent) {
			a.create("a", v1.RestartPolicyAlways)
			a.wait(30 * time.Second)
		}},
		{"a pod is killed during its start", needs{}, func(a *agent) {
			a.create("a", v1.RestartPolicyAlways)
			time.Sleep(time.Millisecond)
			a.kill("a", 5)
			a.wait(30 * time.Second)
		}},
		{"a kill arrives before the first sync", needs{}, func(a *agent) {
			a.create("a", v1.RestartPolicyAlways)
			a.kill("a", 5)
		}},
		{"a grace period shrinks", needs{}, func(a *agent) {
			a.create("a", v1.RestartPolicyAlways)
			a.wait(10 * time.Second)
			a.kill("a", 60)
			a.wait(2 * time.Second)
			a.kill("a", 1)
			a.wait(10 * time.Second)
		}},
		{"a pod is updated", needs{}, func(a *agent) {
			a.create("a", v1.RestartPolicyAlways)
			a.wait(10 * time.Second)
			a.update("a")
			a.wait(30 * time.Second)
			a.check(a.workers)
		}},
		{"a UID returns", needs{}, func(a *agent) {
			a.create("a", v1.RestartPolicyAlways)
			a.wait(10 * time.Second)
			a.kill("a", 1)
			a.wait(time.Minute)
			a.workers.SyncKnownPods(nil)
			delete(a.pods, "a")
			delete(a.kills, "a")
			a.create("a", v1.RestartPolicyNever)
			a.wait(10 * time.Second)
		}},
		{"the agent restarts", needs{restart: true}, func(a *agent) {
			a.create("a", v1.RestartPolicyNever)
			a.wait(10 * time.Second)
			a.restart()
			a.wait(30 * time.Second)
		}},
		{"the agent restarts during a stop", needs{restart: true}, func(a *agent) {
			a.create("a", v1.RestartPolicyAlways)
			a.wait(10 * time.Second)
			a.kill("a", 10)
			a.wait(time.Second)
			a.restart()
			a.wait(30 * time.Second)
		}},
		{"no start succeeds", needs{failStarts: true}, func(a *agent) {
			a.failStarts(true)
			a.create("a", v1.RestartPolicyAlways)
			a.wait(30 * time.Second)
		}},
		{"the first start fails", needs{failStarts: true}, func(a *agent) {
			a.failStarts(true)
			a.create("a", v1.RestartPolicyAlways)
			a.wait(10 * time.Second)
			a.failStarts(false)
			a.wait(10 * time.Minute)
		}},
	}
	for _, policy := range policies {
		for _, code := range []int32{0, 1, 137} {
			out = append(out, standardLife{fmt.Sprintf("a container exits with code %d, restart policy %s", code, policy), needs{exit: true}, func(a *agent) {
				a.create("a", policy)
				a.wait(10 * time.Second)
				for range 2 {
					a.exit("a", code)
					a.wait(10 * time.Minute)
				}
			}})
		}
	}
	return append(out, standardLife{"the agent restarts after an exit", needs{restart: true, exit: true}, func(a *agent) {
		a.create("a", v1.RestartPolicyOnFailure)
		a.wait(10 * time.Second)
		a.exit("a", 3)
		a.restart()
		a.wait(10 * time.Minute)
		a.exit("a", 0)
		a.restart()
		a.wait(10 * time.Minute)
	}})
}

// playRandom plays random events of up to three pods.
func playRandom(a *agent, random *rand.Rand) {
	uid := func() types.UID { return types.UID("abc"[random.IntN(3):][:1]) }
	events := []func(){
		func() { a.create(uid(), policies[random.IntN(len(policies))]) },
		func() { a.update(uid()) },
		func() { a.kill(uid(), 1+random.Int64N(20)) },
		func() { a.wait(time.Duration(random.Int64N(int64(30 * time.Second)))) },
		func() { a.wait(time.Duration(random.Int64N(int64(100 * time.Millisecond)))) },
	}
	if !a.lacks(needs{restart: true}) {
		events = append(events, a.restart)
	}
	if !a.lacks(needs{exit: true}) {
		events = append(events, func() { a.exit(uid(), []int32{0, 1, 137}[random.IntN(3)]) })
	}
	if !a.lacks(needs{failStarts: true}) {
		events = append(events, func() { a.failStarts(random.IntN(2) == 0) })
	}
	a.create("a", policies[random.IntN(len(policies))])
	for range 3 + random.IntN(12) {
		events[random.IntN(len(events))]()
	}
	if !a.lacks(needs{failStarts: true}) {
		a.failStarts(false)
	}
}
