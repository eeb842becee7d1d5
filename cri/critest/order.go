package critest

import (
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
)

// The cases of this file make every call in every state, including forbidden ones. Each case checks
// the result of the call and the state after it.

// An answer is the guaranteed result of a call.
type answer string

const (
	ok      answer = "works"
	refused answer = "is refused"
	missing answer = "is NotFound"
	fails   answer = "is an error" // with any code
	done    answer = "counts as done"
	either  answer = "gets a reply" // runtimes differ
)

// judge checks an error against the answer. It reports whether the call succeeded.
func (a answer) judge(e *env, err error) {
	e.t.Helper()
	switch {
	case a == ok:
		require.NoError(e.t, err)
	case a == refused:
		e.refused(err)
		require.False(e.t, cri.IsNotFound(err), "NotFound for an existing object: %v", err)
	case a == missing:
		e.notFound(err)
	case a == fails:
		e.refused(err)
	case a == done:
		require.NoError(e.t, ignoreNotFound(err))
	case err != nil:
		e.refused(err)
	}
}

// after is the state of the container or sandbox after the call.
type after string

const (
	same       after = ""        // the status is unchanged
	running    after = "it runs" // or is ready
	stopped    after = "it has ended"
	notRunning after = "it does not run"
	removed    after = "it is removed"
)

// An orderState is a state of a container or sandbox before the call.
type orderState struct {
	name string
	make func(e *env) (id string)
}

// An orderCall is a call with an id. A runtime may lack optional ones.
type orderCall struct {
	name string
	do   func(e *env, id string) error
}

// outcome is a cell of the table.
type outcome struct {
	answer answer
	after  after
}

func (o outcome) String() string {
	if o.after == same {
		return string(o.answer)
	}
	return string(o.answer) + ", " + string(o.after)
}

func orderCases() []testCase {
	cases := orderTable(containerStates(), containerCalls(), containerOutcomes(), containerAfter)
	return append(cases, orderTable(sandboxStates(), sandboxCalls(), sandboxOutcomes(), sandboxAfter)...)
}

// orderTable makes a case of each cell. outcomes has a row per call and a column per state.
func orderTable(states []orderState, calls []orderCall, outcomes [][]outcome, look func(e *env, id string) func(after)) []testCase {
	var cases []testCase
	for row, call := range calls {
		for column, state := range states {
			want := outcomes[row][column]
			cases = append(cases, testCase{
				name: call.name + " of " + state.name + " " + want.String(),
				run: func(e *env) {
					id := state.make(e)
					check := look(e, id)
					err := call.do(e, id)
					e.optional(call.name, err)
					want.answer.judge(e, err)
					check(want.after)
				},
			})
		}
	}
	return cases
}

func containerStates() []orderState {
	in := func(name string, p []string, prepare func(e *env, sandbox, id string)) orderState {
		return orderState{name, func(e *env) string {
			pod, sandbox := e.runHost()
			id := e.create(sandbox, e.container("c", p...), pod)
			prepare(e, sandbox, id)
			return id
		}}
	}
	return []orderState{
		in("a created container", sleepProgram.command(), func(*env, string, string) {}),
		in("a running container", sleepProgram.command(), func(e *env, _, id string) {
			require.NoError(e.t, e.Runtime.StartContainer(e.ctx, id))
		}),
		in("an exited container", exit3.command(), func(e *env, _, id string) {
			require.NoError(e.t, e.Runtime.StartContainer(e.ctx, id))
			e.exited(id)
		}),
		in("a container that could not start", []string{"/critest/no-such-executable"}, func(e *env, _, id string) {
			e.refused(e.Runtime.StartContainer(e.ctx, id))
		}),
		in("a created container in a stopped sandbox", sleepProgram.command(), func(e *env, sandbox, _ string) {
			require.NoError(e.t, e.Runtime.StopPodSandbox(e.ctx, sandbox))
		}),
		in("a removed container", sleepProgram.command(), func(e *env, _, id string) {
			require.NoError(e.t, e.Runtime.RemoveContainer(e.ctx, id))
		}),
		{"an unknown container", func(*env) string { return absentID }},
		{"an empty container id", func(*env) string { return "" }},
	}
}

func containerCalls() []orderCall {
	return []orderCall{
		{"StartContainer", func(e *env, id string) error { return e.Runtime.StartContainer(e.ctx, id) }},
		{"StopContainer", func(e *env, id string) error { return e.Runtime.StopContainer(e.ctx, id, 0) }},
		{"StopContainer with grace", func(e *env, id string) error { return e.Runtime.StopContainer(e.ctx, id, time.Minute) }},
		{"RemoveContainer", func(e *env, id string) error { return e.Runtime.RemoveContainer(e.ctx, id) }},
		{"ContainerStatus", func(e *env, id string) error {
			_, err := e.Runtime.ContainerStatus(e.ctx, id, false)
			return err
		}},
		{"ExecSync", func(e *env, id string) error {
			_, _, err := e.Runtime.ExecSync(e.ctx, id, exit0.command(), time.Minute)
			return err
		}},
		{"Exec", func(e *env, id string) error {
			_, err := e.Runtime.Exec(e.ctx, &runtimeapi.ExecRequest{ContainerId: id, Cmd: exit0.command(), Stdout: true})
			return err
		}},
		{"Attach", func(e *env, id string) error {
			_, err := e.Runtime.Attach(e.ctx, &runtimeapi.AttachRequest{ContainerId: id, Stdout: true})
			return err
		}},
		{"UpdateContainerResources", func(e *env, id string) error { return e.Runtime.UpdateContainerResources(e.ctx, sharesOf(id, 300)) }},
		{"ReopenContainerLog", func(e *env, id string) error { return e.Runtime.ReopenContainerLog(e.ctx, id) }},
		{"ContainerStats", func(e *env, id string) error {
			_, err := e.Runtime.ContainerStats(e.ctx, id)
			return err
		}},
	}
}

// containerOutcomes has a row for each of containerCalls and a column for each of containerStates:
// created, running, exited, could not start, in a stopped sandbox, removed, unknown, empty id.
func containerOutcomes() [][]outcome {
	o := func(a answer) outcome { return outcome{answer: a} }
	ignoreNotFound := outcome{ok, removed}
	onlyRunning := []outcome{o(refused), o(ok), o(refused), o(refused), o(refused), o(missing), o(missing), o(fails)}
	return [][]outcome{
		{{ok, running}, o(refused), o(refused), o(refused), {fails, notRunning}, o(missing), o(missing), o(fails)},
		{o(ok), {ok, stopped}, o(ok), o(ok), o(ok), o(done), o(done), o(fails)},
		{o(ok), {ok, stopped}, o(ok), o(ok), o(ok), o(done), o(done), o(fails)},
		{ignoreNotFound, ignoreNotFound, ignoreNotFound, ignoreNotFound, ignoreNotFound, o(done), o(done), o(fails)},
		{o(ok), o(ok), o(ok), o(ok), o(ok), o(missing), o(missing), o(fails)},
		onlyRunning,
		onlyRunning,
		onlyRunning,
		{o(ok), o(ok), o(either), o(either), o(either), o(missing), o(missing), o(fails)},
		onlyRunning,
		{o(either), o(ok), o(either), o(either), o(either), o(missing), o(missing), o(fails)},
	}
}

// containerAfter reads a container's status before a call. The returned function compares the
// status after it. A missing container must stay missing.
func containerAfter(e *env, id string) func(after) {
	before, err := e.Runtime.ContainerStatus(e.ctx, id, false)
	if err != nil {
		return func(after) {
			_, err := e.Runtime.ContainerStatus(e.ctx, id, false)
			e.refused(err)
		}
	}
	return func(want after) {
		e.t.Helper()
		if want == removed {
			e.noContainer(id)
			return
		}
		got := e.status(id)
		switch want {
		case running:
			require.Equal(e.t, runtimeapi.ContainerState_CONTAINER_RUNNING, got.GetState())
		case stopped:
			require.Equal(e.t, runtimeapi.ContainerState_CONTAINER_EXITED, got.GetState())
		case notRunning:
			require.NotEqual(e.t, runtimeapi.ContainerState_CONTAINER_RUNNING, got.GetState())
		default:
			// UpdateContainerResources has separate cases.
			before.Status.Resources, got.Resources = nil, nil
			e.same(before.Status, got)
		}
	}
}
