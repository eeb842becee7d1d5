package podworkerstest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/podworkers"
)

// command executes one line of a script. output is printed beside the trace.
func (p *player) command(line string) (output string, err error) {
	verb, rest, _ := strings.Cut(line, " ")
	words := strings.Fields(rest)
	switch verb {
	case "option":
		return "", p.option(rest)
	case "on":
		return "", p.on(rest)
	case "known", "run", "stop":
		return "", p.all(verb, words)
	case "wait":
		d, err := time.ParseDuration(rest)
		p.begin()
		time.Sleep(d) // the bubble's clock
		return "", err
	}
	if len(words) == 0 {
		return "", fmt.Errorf("the UID of the pod is missing")
	}
	return p.one(verb, words[0], words[1:])
}

func (p *player) option(name string) error {
	switch {
	case p.workers != nil:
		return errors.New("options must precede all commands")
	case name == "hold":
		p.hold = true
	case name == "on-due":
		p.cfg.OnDue = func(types.UID) {}
	default:
		return errors.New("unknown option")
	}
	return nil
}

// all executes a command without a single pod.
func (p *player) all(verb string, words []string) error {
	p.begin()
	switch verb {
	case "known":
		var desired []*v1.Pod
		for _, uid := range words {
			desired = append(desired, p.pod(uid))
		}
		p.workers.SyncKnownPods(desired)
	case "run":
		p.run()
	case "stop":
		if p.ran == nil {
			return errors.New("the workers do not run")
		}
		p.stop()
	}
	return nil
}

// one executes a command about one pod.
func (p *player) one(verb, uid string, attributes []string) (output string, err error) {
	switch verb {
	case "pod":
		_, err = p.change(uid, attributes)
		return "", err
	case "create", "update", "sync", "kill", "orphan":
		u, err := p.update(verb, uid, attributes)
		if err != nil {
			return "", err
		}
		return p.send(u)
	case "forget":
		p.begin()
		if !p.workers.Forget(types.UID(uid)) {
			output = "not forgotten\n"
		}
		return output, nil
	case "end":
		outcome, err := p.outcome(types.UID(uid), strings.Join(attributes, " "))
		if err != nil {
			return "", err
		}
		return "", p.endCall(types.UID(uid), outcome)
	case "state":
		p.begin()
		return p.explain(p.workers.State(types.UID(uid))), nil
	case "methods":
		p.begin()
		return p.predicates(p.workers.State(types.UID(uid)), p.workers.MirrorTerminating(podfacts.FullName(p.pod(uid)))), nil
	}
	return "", errors.New("unknown command")
}

// explain prints a state with times relative to the script's start.
func (p *player) explain(s podworkers.PodState) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is %s", s.UID, s.State)
	add := func(is bool, format string, args ...any) {
		if is {
			fmt.Fprintf(&b, format, args...)
		}
	}
	add(!s.Since.IsZero(), " since %v", p.print.since(s.Since))
	add(s.WaitsFor != "", ", waits for %s", s.WaitsFor)
	add(s.Step != "", " (%s)", s.Step)
	add(s.Call != podworkers.CallNone, " since %v", p.print.since(s.CallSince))
	add(!s.CancelledAt.IsZero(), ", cancelled at %v", p.print.since(s.CancelledAt))
	add(s.GracePeriodSeconds > 0, ", grace %d", s.GracePeriodSeconds)
	add(s.Undesired, ", not desired")
	add(s.RuntimeOnly, ", runtime only")
	add(s.RestartRequested, ", to restart")
	add(s.Evicted, ", evicted")
	add(s.Deleted, ", deleted")
	add(s.KnownTerminated(), ", KnownTerminated")
	add(s.ContentMayBeRemoved(), ", ContentMayBeRemoved")
	add(s.ContainersMayBeRemoved(), ", ContainersMayBeRemoved")
	if s.LastError != nil {
		add(true, ", last error: %s", oneLine(s.LastError))
	}
	add(!s.NextRetry.IsZero(), ", next attempt at %v", p.print.since(s.NextRetry))
	return b.String() + "\n"
}

// predicates prints the predicates of PodState that return true.
func (p *player) predicates(s podworkers.PodState, mirrorTerminating bool) string {
	line := fmt.Sprintf("%s is %s:", s.UID, s.State)
	for _, q := range []struct {
		name string
		yes  bool
	}{
		{"KnownTerminated", s.KnownTerminated()},
		{"CouldHaveRunningContainers", s.CouldHaveRunningContainers()},
		{"ShouldBeFinished", s.ShouldBeFinished()},
		{"TerminationRequested", s.TerminationRequested()},
		{"ContainersShouldBeTerminating", s.ContainersShouldBeTerminating()},
		{"RuntimeMayBeRemoved", s.RuntimeMayBeRemoved()},
		{"ContentMayBeRemoved", s.ContentMayBeRemoved()},
		{"ContainersMayBeRemoved", s.ContainersMayBeRemoved()},
		{"MirrorTerminating", mirrorTerminating},
	} {
		if q.yes {
			line += " " + q.name
		}
	}
	return line + "\n"
}

// pod returns the current pod of the script, or a default one.
func (p *player) pod(uid string) *v1.Pod {
	if p.pods[uid] == nil {
		grace := int64(30)
		p.pods[uid] = &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Name: uid, Namespace: "default"},
			Spec:       v1.PodSpec{TerminationGracePeriodSeconds: &grace},
		}
	}
	return p.pods[uid]
}

// change sets attributes of a pod and returns the attributes that belong to a kill.
func (p *player) change(uid string, attributes []string) (others []string, err error) {
	pod := p.pod(uid).DeepCopy()
	for _, a := range attributes {
		key, value, _ := strings.Cut(a, "=")
		number, notNumber := strconv.ParseInt(value, 10, 64)
		switch key {
		case "static":
			pod.Name, pod.Annotations = value, map[string]string{podfacts.ConfigSource: "file"}
		case "name":
			pod.Name = value
		case "image":
			pod.Spec.Containers = []v1.Container{{Name: "main", Image: value}}
		case "rev":
			pod.ResourceVersion = value
		case "deleting":
			pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		case "alive":
			pod.DeletionTimestamp, pod.Status.Phase = nil, ""
		case "phase":
			pod.Status.Phase = v1.PodPhase(value)
		case "dead":
			p.dead[pod.UID] = true
		case "grace":
			pod.Spec.TerminationGracePeriodSeconds, err = &number, notNumber
		case "deletion-grace":
			pod.DeletionGracePeriodSeconds, err = &number, notNumber
		default:
			others = append(others, a)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a, err)
		}
	}
	p.pods[uid] = pod
	return others, nil
}

func (p *player) update(verb, uid string, attributes []string) (podworkers.Update, error) {
	others, err := p.change(uid, attributes)
	u := podworkers.Update{Type: podworkers.UpdateType(verb), Pod: p.pod(uid)}
	if verb == "orphan" {
		u = podworkers.Update{Type: podworkers.UpdateKill, RuntimePod: &podworkers.RuntimePod{UID: u.Pod.UID, Name: u.Pod.Name, Namespace: u.Pod.Namespace}}
	}
	if err != nil || len(others) == 0 {
		return u, err
	}
	u.Kill = &podworkers.KillOptions{}
	for _, a := range others {
		key, value, _ := strings.Cut(a, "=")
		switch key {
		case "override":
			seconds, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return u, fmt.Errorf("%s: %w", a, err)
			}
			u.Kill.GracePeriodSeconds = &seconds
		case "evict":
			u.Kill.Evict = true
		case "done":
			done := make(chan struct{})
			u.Kill.Done = done
			p.owners[done] = types.UID(uid)
			p.print.number(done)
		case "status":
			u.Kill.Status = func(s *v1.PodStatus) { s.Reason = value }
		default:
			return u, fmt.Errorf("unknown attribute %q", a)
		}
	}
	return u, nil
}

// on parses a script of calls: "on a SyncPod: error, 5s ok". The pod may be *.
func (p *player) on(rest string) error {
	uidOf, list, ok := strings.Cut(rest, ":")
	words := strings.Fields(uidOf)
	if !ok || len(words) != 2 {
		return errors.New("invalid syntax; example: on a SyncPod: error, 5s ok")
	}
	call := podworkers.CallSyncPod
	for ; call.String() != words[1]; call++ {
		if call > podworkers.CallSyncTerminatedPod {
			return fmt.Errorf("unknown call %q", words[1])
		}
	}
	uid := types.UID(strings.TrimPrefix(words[0], "*"))
	var outcomes []Outcome
	for text := range strings.SplitSeq(list, ",") {
		outcome, err := p.outcome(uid, strings.TrimSpace(text))
		if err != nil {
			return err
		}
		outcomes = append(outcomes, outcome)
	}
	p.rec.On(uid, call, outcomes...)
	return nil
}

// outcome parses the outcome of a call.
func (p *player) outcome(uid types.UID, text string) (Outcome, error) {
	word, rest, _ := strings.Cut(text, " ")
	if d, err := time.ParseDuration(word); err == nil {
		then, err := p.outcome(uid, rest)
		if err == nil && then == nil {
			err = errors.New("call cannot have a duration")
		}
		return Take(d, then), err
	}
	switch word {
	case "", "ok":
		return Succeed, nil
	case "call":
		return nil, nil
	case "terminal":
		return Terminal, nil
	case "error":
		return Fail(errors.New(strings.TrimSpace("boom " + rest))), nil
	case "network":
		return Fail(errors.Join(errors.New("boom"), podworkers.ErrNetworkNotReady)), nil
	case "retry-in":
		d, err := time.ParseDuration(rest)
		return func(context.Context, podworkers.Work) (bool, error) {
			return false, podworkers.RetryAt(errors.New("later"), time.Now().Add(d))
		}, err
	case "cancelled":
		return Fail(context.Canceled), nil
	case "panic":
		return func(context.Context, podworkers.Work) (bool, error) { panic("ouch") }, nil
	case "exit":
		return func(context.Context, podworkers.Work) (bool, error) { runtime.Goexit(); return false, nil }, nil
	case "until-cancelled":
		return UntilCancelled, nil
	case "grace":
		return TakeGrace, nil
	case "until-end":
		return p.untilEnd(uid), nil
	}
	return nil, fmt.Errorf("unknown outcome %q", text)
}
