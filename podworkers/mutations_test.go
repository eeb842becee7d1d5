package podworkers_test

import (
	"cmp"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/internal/mutate"
)

// mutationTime is the CPU that each mutation gets at most: one that makes the machine
// run in circles is noticed by then.
const mutationTime = time.Minute

// unexplored are the tests for what exploring cannot notice: there each call ends once,
// and for a pod that is remembered.
var unexplored = map[string]string{"the end of a forgotten pod's call counts": "TestStaleEndIsIgnored"}

// mutation is a way to break the machine. replace holds pairs of what stands in the
// source and what is put there instead. rules are those of which the checks name at
// least one.
type mutation struct {
	name    string
	file    string
	replace []string
	rules   []string
}

func allMutations() []mutation {
	return []mutation{
		{"two calls at a time", "machine_calls.go", []string{"if r.call != CallNone || !r.ready {", "if !r.ready {"}, []string{"INV-1"}},
		{"the end of a forgotten pod's call counts", "machine_calls.go", []string{"r.gen != gen || ", ""}, []string{"INV-1"}},
		{"an update during a call is lost", "machine.go", []string{"r.pending, r.hasPending, r.ready = next, true, true", "r.pending, r.hasPending, r.ready = next, true, r.call == CallNone"}, []string{"INV-2"}},
		{"a pod that has stopped is stopped again", "machine_calls.go", []string{"		m.setState(r, StateTerminated, now)\n		m.closeDone(r)\n", "		m.closeDone(r)\n"}, []string{"INV-3", "INV-17"}},
		{"an old spec is acted on again", "machine_calls.go", []string{"r.active, r.pending, r.hasPending = r.pending, spec{}, false", "r.pending, r.hasPending = spec{}, r.active.pod == nil; if r.hasPending { r.active, r.hasPending = r.pending, false }"}, []string{"INV-4", "panic"}},
		{"the newest spec is not kept while one is pending", "machine.go", []string{"	r.pending, r.hasPending, r.ready = next, true, true", "	if r.hasPending {\n		next = r.pending\n	}\n	r.pending, r.hasPending, r.ready = next, true, true"}, []string{"INV-4"}},
		{"a create revokes the termination", "machine.go", []string{"u.Type == UpdateCreate && r.state >= StateTerminationRequested", "u.Type == UpdateCreate && r.state >= StateFinished"}, []string{"INV-4", "INV-9"}},
		{"termination is forgotten", "machine_calls.go", []string{"case StateTerminationRequested:\n		m.setState(r, StateTerminating, now)\n		m.prepareTerminating(r, &c)", "case StateTerminationRequested:\n		c.kind = CallSyncPod"}, []string{"INV-5"}},
		{"the longest grace period counts", "grace.go", []string{"value < result.seconds", "value > result.seconds"}, []string{"INV-6"}},
		{"a grace period of 0 counts as none", "grace.go", []string{"if seconds == nil {", "if seconds == nil || *seconds == 0 {"}, []string{"INV-6"}},
		{"less grace does not interrupt the stop", "machine.go", []string{"r.grace.seconds < before {", "r.grace.seconds < before-1000 {"}, []string{"INV-6"}},
		{"SyncPod after a terminating call failed", "machine_calls.go", []string{"	case StateTerminating:\n		m.prepareTerminating(r, &c)", "	case StateTerminating:\n		c.kind = CallSyncPod"}, []string{"INV-7"}},
		{"a failed stop counts as a good one", "machine_calls.go", []string{"		m.failed(r, res.callError, now)\n", "		m.failed(r, res.callError, now)\n		if ended == CallSyncTerminatingPod {\n			m.succeeded(r, ended, false, now)\n		}\n"}, []string{"INV-8"}},
		{"a static pod that the runtime knows is finished unstopped", "machine_calls.go", []string{"r.state == StateTerminationRequested && !r.observed", "r.state == StateTerminationRequested"}, []string{"INV-8"}},
		{"finished pods are called again", "machine_calls.go", []string{"	m.setState(r, StateFinished, now)\n	m.vacate(r, now)\n", "	m.setState(r, StateFinished, now)\n	m.vacate(r, now)\n	r.ready = true\n"}, []string{"INV-9"}},
		{"a pod is forgotten before it is finished", "machine_known.go", []string{"case r.state == StateFinished:\n			m.drop", "case r.state >= StateTerminated:\n			m.drop"}, []string{"INV-9"}},
		{"a UID that comes again is not freed", "machine_known.go", []string{"return r.undesired || r.restart", "return r.undesired"}, []string{"INV-10"}},
		{"static pods of one name run together", "machine_calls.go", []string{"r.state < StateTerminationRequested && m.names.next(r.fullName()) != r.uid", "m.names == nil"}, []string{"INV-11"}},
		{"the last in line starts first", "names.go", []string{"s.waiting = append(s.waiting, uid)", "s.waiting = append([]types.UID{uid}, s.waiting...)"}, []string{"INV-11"}},
		{"a name is free when the pod has stopped", "machine_calls.go", []string{"		m.closeDone(r)\n		r.ready = true", "		m.closeDone(r)\n		m.names.release(r.fullName(), r.uid)\n		m.wake(r.fullName(), now)\n		r.ready = true", "	if r.static {\n		m.names.hold", "	if r.static && r.state < StateTerminated {\n		m.names.hold"}, []string{"INV-11"}},
		{"nobody wakes the next in line", "machine_calls.go", []string{"		m.wake(r.fullName(), now)\n", ""}, []string{"INV-11"}},
		{"waiting pods show their spec", "machine_known.go", []string{"Pod: r.active.pod,", "Pod: r.last().pod,"}, []string{"INV-12"}},
		{"what the runtime knows replaces the spec", "machine.go", []string{"		next.pod, next.mirror = last.pod, last.mirror\n		if !r.hasConfig {", "		_ = last\n		if next.pod == nil {"}, []string{"INV-13", "INV-6"}},
		{"a kill of a finished pod is not answered", "machine.go", []string{"	case !terminating:\n", "	case !terminating && r.state == StateFinished:\n	case !terminating:\n"}, []string{"INV-14"}},
		{"a done channel is closed twice", "machine_calls.go", []string{"	r.done, r.status = nil, nil", "	r.status = nil"}, []string{"INV-14"}},
		{"the first status function counts", "machine.go", []string{"if terminating && kill.Status != nil {", "if terminating && kill.Status != nil && r.status == nil {"}, []string{"INV-15"}},
		{"the end of a call is not remembered", "machine_calls.go", []string{"if now.After(r.actedAt) {", "if now.Before(r.actedAt) {"}, []string{"INV-16"}},
		{"the end of a forgotten pod's calls is forgotten", "machine.go", []string{", actedAt: m.forgottenActedAt}", "}"}, []string{"INV-16"}},
		{"a failure is not repeated", "machine_calls.go", []string{"	m.due.set(r, now.Add(pause))", "	_ = pause"}, []string{"INV-17"}},
		{"nothing follows the natural end", "machine_calls.go", []string{"			r.ready = true\n			m.setState(r, StateTerminating, now)", "			m.setState(r, StateTerminating, now)"}, []string{"INV-2", "INV-17"}},
		{"SyncKnownPods does not repeat", "machine_known.go", []string{"	m.replay(r, now)\n", ""}, []string{"INV-2"}},
		{"SyncKnownPods repeats without a rest", "machine_known.go", []string{"r.call != CallNone || now.Before(r.failedAt.Add(hotRetry))", "r.call != CallNone"}, []string{"INV-17"}},
		{"SyncKnownPods repeats what runs", "machine_known.go", []string{"r.call != CallNone || now.Before(r.failedAt.Add(hotRetry))", "now.Before(r.failedAt.Add(hotRetry))"}, []string{"INV-17", "INV-2"}},
		{"a forgotten pod is remembered", "machine_calls.go", []string{"	delete(m.records, r.uid)\n", ""}, []string{"INV-18"}},
		{"the desired pods stay unknown", "machine_known.go", []string{"	m.known = true\n", ""}, []string{"INV-19"}},
		{"a pod that was handed in is changed", "machine_calls.go", []string{"	m.due.remove(r)\n	c := call{", "	if r.active.pod != nil {\n		r.active.pod.Status.Reason = \"touched\"\n	}\n	m.due.remove(r)\n	c := call{"}, []string{"INV-20"}},
		{"evicting is noted only at first", "machine.go", []string{"	r.flag(u)\n", "	if r.state < StateTerminationRequested {\n		r.flag(u)\n	}\n"}, []string{"D5"}},
		{"SyncPod goes on after a kill", "machine.go", []string{"	m.cancel(r, ErrTerminationRequested, now)\n", ""}, []string{"1.7"}},
		{"an update cancels SyncPod", "machine.go", []string{"	m.put(r, next)\n", "	m.put(r, next)\n	m.cancel(r, ErrTerminationRequested, now)\n"}, []string{"1.7"}},
		{"calls begin while the agent stops", "machine.go", []string{"m.isOpen, m.isShut = false, true", "m.isShut = true"}, []string{"1.4"}},
		{"a pod that waits is kept although it is not desired", "machine_known.go", []string{"r.undesired && r.state == StateWaiting:", "r.undesired && r.deleted && r.state == StateWaiting:"}, []string{"1.12", "INV-5"}},
	}
}

// Each way to break the machine still has its place in the sources.
func TestMutationsApply(t *testing.T) {
	for _, m := range allMutations() {
		t.Run(m.name, func(t *testing.T) { m.broken(t) })
	}
}

// Each way to break the machine is noticed by the scripts or by exploring, with
// the name of the rule that it breaks. The sources are replaced for the compiler
// only. It takes two minutes of CPU.
func TestMutations(t *testing.T) {
	if testing.Short() {
		t.Skip("not with -short")
	}
	for _, m := range allMutations() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			tests, err := mutate.Build(t.Context(), "", t.TempDir(), map[string][]byte{m.file: m.broken(t)})
			require.NoError(t, err)
			outcome, out, err := tests.Test(t.Context(), 0, mutate.Limits{
				Run: "^(" + cmp.Or(unexplored[m.name], "TestExplore|TestScripts") + ")$", CPU: int(mutationTime.Seconds()),
			})
			require.NoError(t, err)
			require.NotEqual(t, mutate.Survived, outcome, "nobody noticed")
			if outcome == mutate.Expired {
				return
			}
			named := false
			for _, rule := range m.rules {
				named = named || strings.Contains(out, rule)
			}
			require.True(t, named, "noticed, but not as one of %v:\n%.3000s", m.rules, out)
		})
	}
}

// broken is the source with the mutation.
func (m mutation) broken(t *testing.T) []byte {
	source, err := os.ReadFile(m.file)
	require.NoError(t, err)
	broken := string(source)
	for i := 0; i < len(m.replace); i += 2 {
		require.Equal(t, 1, strings.Count(broken, m.replace[i]), "%q in %s", m.replace[i], m.file)
		broken = strings.Replace(broken, m.replace[i], m.replace[i+1], 1)
	}
	return []byte(broken)
}
