package script_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/podwright/podwright/cri/fake/script"
)

func TestParse(t *testing.T) {
	pod := script.OfPod
	for text, want := range map[string]script.Rule{
		`2nd StopContainer of pod a: hang 30s, then Unknown "lost"`: script.OnObject("StopContainer", pod("a"),
			script.HangFor(30*time.Second), script.Fail(codes.Unknown, "lost")).Nth(2),
		`every StartContainer of container app of pod prod/web: take 50ms`: script.OnObject("StartContainer",
			script.OfContainer("app", "prod/web"), script.Take(50*time.Millisecond)),
		`1st to 3rd PullImage of image busybox:1.36: Unavailable "registry is down"`: script.OnObject("PullImage",
			script.OfImage("busybox:1.36"), script.Fail(codes.Unavailable, "registry is down")).Between(1, 3),
		`every 3rd ListPodSandbox: DeadlineExceeded`:  script.On("ListPodSandbox", script.Fail(codes.DeadlineExceeded, "")).EveryNth(3),
		`from the 5th CreateContainer: do, then hang`: script.On("CreateContainer", script.Do(), script.Hang()).From(5),
		`12.5% of StopContainer: take 10ms to 40ms`: script.On("StopContainer",
			script.TakeBetween(10*time.Millisecond, 40*time.Millisecond)).Chance(12.5),
		`40th call: restart`: script.On(script.AnyCall, script.Restart()).Nth(40),
		`41st call: restart losing state, then Unavailable`: script.On(script.AnyCall, script.RestartLosingState(), script.Fail(codes.Unavailable, "")).Nth(41),
		`every RunPodSandbox of sandbox attempt 0: do, then empty reply`: script.OnObject("RunPodSandbox",
			script.OfSandbox("").WithAttempt(0), script.Do(), script.EmptyReply()),
		`1st event stopped of pod a: drop`:        script.OnObject(script.EventStopped, pod("a"), script.Drop()).Nth(1),
		`every event: twice`:                      script.On(script.AnyEvent, script.Twice()),
		`2nd event created: take 1s, then swap`:   script.On(script.EventCreated, script.Take(time.Second), script.Swap()).Nth(2),
		`3rd event deleted: late 5s to 1m`:        script.On(script.EventDeleted, script.Step{Kind: script.KindLate, Min: 5 * time.Second, Max: time.Minute}).Nth(3),
		`4th event started: do, then Unavailable`: script.On(script.EventStarted, script.Do(), script.Fail(codes.Unavailable, "")).Nth(4),
		`every run of container app attempt 0 of pod a of uid 1-2 of image b: take 3s, then exit 1 Error "boom"`: script.OnObject(script.Run,
			script.Selector{Kind: script.ContainerKind, Container: "app", Attempt: new(uint32), Pod: "a", UID: "1-2", Image: "b"},
			script.Take(3*time.Second), script.Exit(1, "Error", "boom")),
		`every run of container: until stopped, then take 200ms, then exit 0`: script.OnObject(script.Run, script.OfContainer("", ""),
			script.UntilStopped(), script.Take(200*time.Millisecond), script.Exit(0, "", "")),
		`every ExecSync of container "of" of pod "a b/c\n\xff": exit 3 "no"`: script.OnObject("ExecSync",
			script.OfContainer("of", "a b/c\n\xff"), script.Exit(3, "", "no")),
	} {
		got, err := script.ParseRule(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
		require.Equal(t, text, got.String())
		require.NoError(t, got.Validate())
	}
}

// What may be written in more than one way comes back in one.
func TestParseLoosely(t *testing.T) {
	s, err := script.Parse("# nothing\n\n\tseed 42 # the answer\r\n" +
		"StopContainer : take 60s ,take 0s # twice\n" +
		"from 3rd call of pod a of container b: do,then Unknown \"#\"\n" +
		`10% of call of image "busybox:1.36": Unknown ""`)
	require.NoError(t, err)
	require.Equal(t, "seed 42\nevery StopContainer: take 1m, then take 0s\n"+
		"from the 3rd call of container b of pod a: do, then Unknown \"#\"\n"+
		"10% of call of image busybox:1.36: Unknown\n", s.String())
	require.EqualValues(t, 42, s.Seed)
}

func TestParseErrors(t *testing.T) {
	const aStep = "a step: take, hang, do, empty, restart, or a gRPC code such as Unavailable"
	for _, c := range []struct {
		text, problem string
		column        int
	}{
		{"StopContainr: do", "found 'StopContainr', expected 'seed', a count such as '2nd', 'every', 'from', '10% of', the name of a call, 'call', 'event' or 'run'", 1},
		{"every Stop: do", "found 'Stop', expected the name of a call, 'call', 'event' or 'run'", 7},
		{"every", "found the end of the line, expected the name of a call, 'call', 'event' or 'run'", 6},
		{`"call": do`, `found "call", expected 'seed', a count such as '2nd', 'every', 'from', '10% of', the name of a call, 'call', 'event' or 'run'`, 1},
		{"seed -1", "found '-1', expected a number, the seed", 6},
		{"seed 1 2", "found '2', expected the end of the line", 8},
		{"2th call: do", "found '2th', expected '2nd'", 1},
		{"every 3 call: do", "found '3', expected '3rd'", 7},
		{"0th call: do", "found '0th', expected a count such as '2nd'", 1},
		{"from call: do", "found 'call', expected a count such as '2nd'", 6},
		{"1st to call: do", "found 'call', expected a count such as '2nd'", 8},
		{"3rd to 2nd call: do", "2nd comes before 3rd", 1},
		{"0% of call: do", "found '0%', expected a chance of more than 0% and up to 100%", 1},
		{"NaN% of call: do", "found 'NaN%', expected a chance of more than 0% and up to 100%", 1},
		{"10% call: do", "found 'call', expected 'of'", 5},
		{"event sopped: drop", "found 'sopped', expected created, started, stopped, deleted, 'of' or ':'", 7},
		{"call pod a: do", "found 'pod', expected 'of' and an object, or ':' and steps", 6},
		{"call of a: do", "found 'a', expected container, sandbox, pod, uid or image", 9},
		{"call of pod a of pod b: do", "a second 'pod' in one rule", 18},
		{"call of sandbox of container: do", "a second 'container' in one rule", 20},
		{"call of pod: do", "found ':', expected a pod's name", 12},
		{"call of pod a/b/c: do", "found 'a/b/c', expected name or namespace/name", 13},
		{"call of pod /b: do", "found '/b', expected name or namespace/name", 13},
		{"call of pod a/: do", "found 'a/', expected name or namespace/name", 13},
		{"call of uid : do", "found ':', expected a UID", 13},
		{"call of image", "found the end of the line, expected an image's name", 14},
		{"call of container a attempt x: do", "found 'x', expected the number of an attempt", 29},
		{"call of sandbox of image x: do", "a sandbox has no image", 6},
		{"run of sandbox: exit 0", "a sandbox runs no program", 5},
		{"2nd ListContainers of pod a: Unknown", "ListContainers is about no object, so the rule can never fire", 20},
		{"call", "found the end of the line, expected 'of' and an object, or ':' and steps", 5},
		{"call:", "found the end of the line, expected " + aStep, 6},
		{"call: do,", "found the end of the line, expected " + aStep, 10},
		{"call: OK", "OK is no error", 7},
		{"call: wait 3s", "found 'wait', expected " + aStep, 7},
		{`call: "do"`, `found "do", expected ` + aStep, 7},
		{"ExecSync: drop now", "found 'now', expected ', then' and another step, or the end of the line", 16},
		{"event: hang", "hang is no step of an event", 8},
		{"run: do", "do is no step of a run", 6},
		{"call: drop", "drop is no step of a call", 7},
		{"StopContainer: exit 1", "exit is no step of StopContainer", 16},
		{"event: go", "found 'go', expected a step: take, do, drop, twice, late, swap, or a gRPC code such as Unavailable", 8},
		{"run: go", "found 'go', expected a step: take, hang, exit, until, or a gRPC code such as Unavailable", 6},
		{"call: take", "found the end of the line, expected a duration such as 50ms", 11},
		{"call: take -3s", "found '-3s', expected a duration such as 50ms", 12},
		{"call: take 3s to", "found the end of the line, expected a duration such as 50ms", 17},
		{"call: take 3s to 2s", "2s is less than 3s", 18},
		{"call: hang 0s", "a hang of 0s is none", 7},
		{"call: hang, then do", "nothing can come after a hang without end", 18},
		{"call: do, then do", "a rule has one do at most", 16},
		{"call: Unknown, then do", "nothing can come after Unknown", 21},
		{"call: empty", "found the end of the line, expected 'reply'", 12},
		{"call: restart losing", "found the end of the line, expected 'state'", 21},
		{"run: until", "found the end of the line, expected 'stopped'", 11},
		{"run: exit", "found the end of the line, expected an exit code from 0 to 255", 10},
		{"run: exit 256", "found '256', expected an exit code from 0 to 255", 11},
		{"run: exit 1 bad", "found 'bad', expected a reason such as Error, or a text", 13},
		{"ExecSync: exit 1 Error", "only a run has a reason", 11},
		{"run: hang 1s, then Unknown", "only take can come before an error that fails the start", 20},
		{"event: do, then twice", "only take can come before twice", 17},
		{`call: Unknown "a`, "a text begins here that does not end, or has an escape that is none", 15},
		{"call of pod é: do", "'é' cannot be here without quotes", 13},
		{"call of pod \"é\" of é: do", "'é' cannot be here without quotes", 20},
	} {
		_, err := script.Parse("# first\n" + c.text)
		var parse *script.ParseError
		require.True(t, errors.As(err, &parse), "%s: %v", c.text, err)
		require.Equal(t, script.ParseError{Line: 2, Column: c.column, Problem: c.problem}, *parse, c.text)
	}
	_, err := script.Parse("seed 1\n call: do\n seed 1")
	require.EqualError(t, err, "script: line 3, column 2: a second 'seed' in one script")
	_, err = script.ParseRule("call: do\ncall: do")
	require.EqualError(t, err, "script: line 1, column 1: found 2 rules, expected one")
}

func FuzzParse(f *testing.F) {
	f.Add("seed 3\n2nd StopContainer of pod a: hang 30s, then Unknown \"lost\"\n")
	f.Add("every run of container \"x\\n\" attempt 4 of pod n/p of uid u of image i:1@sha256:00: until stopped, then exit 1 Error \"a\"")
	f.Add("12.5% of event deleted of sandbox attempt 1: take 1ms to 2h, late 5s to 6s # end")
	f.Add("1st to 3rd ExecSync: restart losing state, do, hang 1s, exit 3")
	f.Add("from the 11th call: empty reply\n\n#\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := script.Parse(text)
		if err != nil {
			var parse *script.ParseError
			require.True(t, errors.As(err, &parse))
			require.Positive(t, parse.Line)
			require.Positive(t, parse.Column)
			require.LessOrEqual(t, parse.Line, strings.Count(text, "\n")+1)
			return
		}
		require.NoError(t, s.Validate(), text)
		again, err := script.Parse(s.String())
		require.NoError(t, err, "%q from %q", s, text)
		require.Equal(t, s, again)
	})
}
