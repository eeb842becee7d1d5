package syncloop_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/podworkers/podworkerstest"
	"github.com/podwright/podwright/syncloop"
)

// command executes one line of a script and returns the events. The commands:
//
//	option sources=file,api   the configured sources of pods; this is the default
//	option per-source, needs, order=priority
//	pod a ...                 sets fields of pod a: name= (its UID by default), mirror, deleting,
//	                          phase=, rev=, grace=, created=SECOND, priority=, needs=NAME, deadline=SECONDS
//	set file a b              the newest set of the source
//	emit container-died a     emits an event
//	runtime a b               the pods of the runtime
//	down 3, down, up          3, all or no health checks fail; `down` writes no log line
//	admission a reject REASON the admitter's result: reject, defer or panic, with text; or admit
//	on a SyncPod: error, 5s ok   results of the workers' calls; the last one repeats
//	cleaner hang 5m           the cleaner's behaviour in the next housekeeping: hang, fail or panic
//	wait 2s                   time passes
//	restart                   the agent restarts; the runtime continues
//	health, active, unadmitted, cleaners, state a   print the agent's state
func (n *node) command(line string) string {
	verb, rest, _ := strings.Cut(line, " ")
	words := strings.Fields(rest)
	output, err := n.configure(verb, rest, words)
	if errors.Is(err, errOther) {
		n.start()
		output, err = n.act(verb, rest, words)
	}
	require.NoError(n.t, err, line)
	synctest.Wait()
	if n.agent != nil {
		require.NoError(n.t, n.rec.Check(n.workers), "after %s", line)
	}
	return n.take() + output
}

var errOther = errors.New("unknown command")

// configure executes the commands that need no agent.
func (n *node) configure(verb, rest string, words []string) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch verb {
	case "option":
		return "", n.option(rest)
	case "pod":
		return "", n.setPodFields(words[0], words[1:])
	case "runtime":
		n.runtime = nil
		for _, uid := range words {
			n.runtime = append(n.runtime, podworkers.RuntimePod{UID: types.UID(uid), Name: uid, Namespace: "ns"})
		}
	case "admission":
		uid, result, _ := strings.Cut(rest, " ")
		n.admissions[types.UID(uid)] = result
	case "cleaner":
		n.cleaner = rest
	case "up":
		n.failingChecks = 0
	case "down":
		n.failingChecks = -1
		if rest != "" {
			n.failingChecks, _ = strconv.Atoi(rest)
		}
	default:
		return "", errOther
	}
	return "", nil
}

func (n *node) option(text string) error {
	key, value, _ := strings.Cut(text, "=")
	switch {
	case key == "sources":
		n.sources = strings.Split(value, ",")
	case key == "per-source":
		n.perSource = true
	case key == "needs":
		n.needs = true
	case text == "order=priority":
		n.order = syncloop.ByPriority
	default:
		return fmt.Errorf("unknown option %q", text)
	}
	return nil
}

// act executes the commands that need an agent.
func (n *node) act(verb, rest string, words []string) (string, error) {
	switch verb {
	case "set":
		var pods []*v1.Pod
		for _, uid := range words[1:] {
			pods = append(pods, n.pod(uid))
		}
		return "", n.merger.Set(words[0], pods, n.loop.Emit)
	case "emit":
		return "", n.emit(words)
	case "on":
		return "", n.setResults(rest)
	case "wait":
		d, err := time.ParseDuration(rest)
		time.Sleep(d)
		return "", err
	case "restart":
		n.agent.stop()
		n.agent, n.statuses = nil, map[types.UID]v1.PodPhase{}
		n.start()
		return "", nil
	}
	return n.query(verb, words)
}

func (n *node) query(verb string, words []string) (string, error) {
	switch verb {
	case "health":
		return fmt.Sprintf("health: %v\n", n.loop.CheckHealth()), nil
	case "active":
		return fmt.Sprintf("active: [%s]\n", uids(n.handler.ActivePods())), nil
	case "unadmitted":
		var out strings.Builder
		for _, u := range n.handler.Unadmitted() {
			fmt.Fprintf(&out, "%s, rejected=%v, since %v: %v\n", u.Pod.UID, u.Rejected, u.Since.Sub(n.begin), u.Err)
		}
		return out.String(), nil
	case "state":
		s := n.workers.State(types.UID(words[0]))
		return fmt.Sprintf("%s is %s\n", words[0], s.State), nil
	case "cleaners":
		var out strings.Builder
		for _, c := range n.handler.CleanerStatuses() {
			fmt.Fprintf(&out, "cleaner %s: %v\n", c.Name, c.Err)
		}
		return out.String(), nil
	}
	return "", errOther
}

func (n *node) emit(words []string) error {
	for k := syncloop.Kind(1); k.String() != "unknown"; k++ {
		if k.String() != strings.ReplaceAll(words[0], "-", " ") {
			continue
		}
		for _, uid := range append(words[1:], "")[:max(1, len(words)-1)] {
			n.loop.Emit(syncloop.Event{Kind: k, UID: types.UID(uid)})
		}
		return nil
	}
	return errors.New("unknown kind")
}

// setResults scripts the results of the workers' calls.
func (n *node) setResults(rest string) error {
	target, list, _ := strings.Cut(rest, ": ")
	uid, name, _ := strings.Cut(target, " ")
	for call := podworkers.CallSyncPod; call <= podworkers.CallSyncTerminatedPod; call++ {
		if call.String() != name {
			continue
		}
		var outcomes []podworkerstest.Outcome
		for text := range strings.SplitSeq(list, ", ") {
			outcomes = append(outcomes, outcome(text))
		}
		n.rec.On(types.UID(uid), call, outcomes...)
		return nil
	}
	return errors.New("unknown call")
}

func outcome(text string) podworkerstest.Outcome {
	first, then, _ := strings.Cut(text, " ")
	if d, err := time.ParseDuration(first); err == nil {
		return podworkerstest.Take(d, outcome(then))
	}
	switch first {
	case "ok":
		return podworkerstest.Succeed
	case "terminal":
		return podworkerstest.Terminal
	}
	return podworkerstest.Fail(errors.New(text))
}

func (n *node) pod(uid string) *v1.Pod {
	if n.pods[uid] == nil {
		n.pods[uid] = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: uid, Namespace: "ns", UID: types.UID(uid)}}
	}
	return n.pods[uid]
}

func (n *node) setPodFields(uid string, attributes []string) error {
	pod := n.pod(uid).DeepCopy()
	n.pods[uid] = pod
	for _, a := range attributes {
		key, value, _ := strings.Cut(a, "=")
		number, notNumber := strconv.ParseInt(value, 10, 64)
		if err := set(pod, key, value, number, notNumber); err != nil {
			return fmt.Errorf("%s: %w", a, err)
		}
	}
	return nil
}

func set(pod *v1.Pod, key, value string, number int64, notNumber error) error {
	switch key {
	case "name":
		pod.Name = value
	case "mirror":
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, podfacts.ConfigMirror, "hash")
	case "needs":
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "needs", value)
	case "rev":
		pod.Spec.Hostname = value
	case "phase":
		pod.Status.Phase = v1.PodPhase(value)
	case "deleting":
		pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	case "grace":
		pod.DeletionGracePeriodSeconds = &number
		return notNumber
	case "deadline":
		pod.Spec.ActiveDeadlineSeconds = &number
		return notNumber
	case "priority":
		priority := int32(number)
		pod.Spec.Priority = &priority
		return notNumber
	case "created":
		pod.CreationTimestamp = metav1.Unix(number, 0)
		return notNumber
	default:
		return errors.New("unknown attribute")
	}
	return nil
}
