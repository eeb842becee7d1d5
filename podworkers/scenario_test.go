package podworkers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/podworkers/podworkerstest"
)

// scenario is a set of pods and all actions on them. An action has a script command and the same
// input for a machine, so that every path can be replayed on real Workers.
type scenario struct {
	name    string
	simple  bool
	uids    []types.UID
	actions []action
}

type action struct {
	command string
	// can reports whether the action is possible now; do performs it.
	can func(x *podworkers.Machine) bool
	do  func(x *podworkers.Machine) []podworkers.TraceEvent
}

var errBoom = errors.New("boom")

// newScenario returns a scenario of the UIDs. Either all are static pods of one full name, or none is
// static. A simple scenario omits inputs with little influence on the order, so that it can be
// explored further.
func newScenario(name string, static, simple bool, uids ...types.UID) *scenario {
	w := &scenario{name: name, simple: simple, uids: uids}
	always := func(*podworkers.Machine) bool { return true }
	w.add(action{"run", func(x *podworkers.Machine) bool { return !x.Open() && !x.Stopped() }, (*podworkers.Machine).Run})
	w.add(action{"wait 2m", (*podworkers.Machine).Open, func(x *podworkers.Machine) []podworkers.TraceEvent { return x.Wait(2 * time.Minute) }})
	if !simple {
		w.add(action{"stop", (*podworkers.Machine).Open, (*podworkers.Machine).Stop})
	}
	for subset := range 1 << len(uids) {
		var desired []*v1.Pod
		command := "known"
		for i, uid := range uids {
			if subset&(1<<i) != 0 {
				desired = append(desired, podOf(uid))
				command += " " + string(uid)
			}
		}
		w.add(action{command, always, func(x *podworkers.Machine) []podworkers.TraceEvent { return x.Known(desired) }})
	}
	for _, uid := range uids {
		w.addUpdates(uid, static)
		w.addEnds(uid)
		if !simple {
			w.add(action{"forget " + string(uid), always, func(x *podworkers.Machine) []podworkers.TraceEvent { return x.Forget(uid) }})
		}
	}
	return w
}

func (w *scenario) add(a action) { w.actions = append(w.actions, a) }

func podOf(uid types.UID) *v1.Pod {
	grace := int64(30)
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: uid, Name: string(uid), Namespace: "default"},
		Spec:       v1.PodSpec{TerminationGracePeriodSeconds: &grace},
	}
}

func (w *scenario) addUpdates(uid types.UID, static bool) {
	pod := func(rev string, change func(*v1.Pod)) *v1.Pod {
		p := podOf(uid)
		p.ResourceVersion = rev
		if static {
			p.Name, p.Annotations = "web", map[string]string{"kubernetes.io/config.source": "file"}
		}
		change(p)
		return p
	}
	attributes := " alive"
	if static {
		attributes += " static=web"
	}
	seconds := func(n int64) *int64 { return &n }
	for _, u := range []struct {
		words  string
		typ    podworkers.UpdateType
		pod    *v1.Pod
		kill   *podworkers.KillOptions
		status string
		done   bool
		dead   bool
		rare   bool
	}{
		{words: " rev=1", typ: podworkers.UpdateCreate, pod: pod("1", func(*v1.Pod) {})},
		{words: " rev=2", typ: podworkers.UpdateUpdate, pod: pod("2", func(*v1.Pod) {}), rare: static},
		{words: " rev=3 deleting", typ: podworkers.UpdateUpdate, pod: pod("3", func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }), rare: true},
		{words: " rev=4 phase=Failed dead", typ: podworkers.UpdateCreate, pod: pod("4", func(p *v1.Pod) { p.Status.Phase = v1.PodFailed }), dead: true, rare: true},
		{words: " rev=1 done status=First", typ: podworkers.UpdateKill, pod: pod("1", func(*v1.Pod) {}), kill: &podworkers.KillOptions{}, status: "First", done: true},
		{words: " rev=2 evict override=0 status=Second", typ: podworkers.UpdateKill, pod: pod("2", func(*v1.Pod) {}),
			kill: &podworkers.KillOptions{Evict: true, GracePeriodSeconds: seconds(0)}, status: "Second", rare: static},
		{words: " rev=2 override=60", typ: podworkers.UpdateKill, pod: pod("2", func(*v1.Pod) {}), kill: &podworkers.KillOptions{GracePeriodSeconds: seconds(60)}, rare: true},
		{words: " done", kill: &podworkers.KillOptions{}, done: true},
	} {
		if u.rare && w.simple {
			continue
		}
		verb := string(u.typ)
		if u.pod == nil {
			verb = "orphan"
		}
		status := func(s *v1.PodStatus) { s.Reason = u.status }
		can := func(x *podworkers.Machine) bool { return !x.Stopped() && (!u.done || x.Waiters(uid) < 2) }
		w.add(action{verb + " " + string(uid) + attributes + u.words, can, func(x *podworkers.Machine) []podworkers.TraceEvent {
			update := podworkers.Update{Type: u.typ, Pod: u.pod}
			if u.pod == nil {
				update = podworkers.Update{Type: podworkers.UpdateKill, RuntimePod: &podworkers.RuntimePod{UID: uid, Name: string(uid), Namespace: "default"}}
			}
			if u.kill != nil {
				options := *u.kill
				update.Kill = &options
				if u.status != "" {
					options.Status = status
				}
				if u.done {
					options.Done = make(chan struct{})
				}
			}
			return x.Update(update, u.dead)
		}})
	}
}

func (w *scenario) addEnds(uid types.UID) {
	for _, how := range []struct {
		word     string
		terminal bool
		err      error
	}{{"", false, nil}, {" error", false, errBoom}, {" terminal", true, nil}, {" cancelled", false, context.Canceled}} {
		if w.simple && (how.terminal || how.err == context.Canceled) {
			continue
		}
		can := func(x *podworkers.Machine) bool {
			call := x.Running(uid)
			return call == podworkers.CallSyncPod || call != podworkers.CallNone && !how.terminal
		}
		w.add(action{"end " + string(uid) + how.word, can, func(x *podworkers.Machine) []podworkers.TraceEvent {
			return x.End(uid, how.terminal, how.err)
		}})
	}
}

// begin returns the first path of the exploration. A simple scenario is already running.
func (w *scenario) begin() path {
	if w.simple {
		return path{0}
	}
	return nil
}

type path []uint8

func (w *scenario) script(p path) string {
	var b strings.Builder
	b.WriteString("option hold\n")
	for _, uid := range w.uids {
		for call := podworkers.CallSyncPod; call <= podworkers.CallSyncTerminatedPod; call++ {
			fmt.Fprintf(&b, "on %s %s: until-end\n", uid, call)
		}
	}
	for _, i := range p {
		b.WriteString(w.actions[i].command + "\n")
	}
	return b.String()
}

// walk is a machine on a path, with a checker.
type walk struct {
	x     *podworkers.Machine
	check *podworkerstest.Checker
}

func newWalk() *walk { return &walk{podworkers.NewMachine(), podworkerstest.NewChecker()} }

func (k *walk) clone() *walk { return &walk{k.x.Clone(), k.check.Clone()} }

func (k *walk) step(a action) {
	for _, e := range a.do(k.x) {
		k.check.Event(e)
	}
}

// err returns the violated rules.
func (k *walk) err() error {
	k.check.Settle(time.Time{})
	k.check.States(k.x.Pods())
	if broken := k.x.Broken(); broken != "" {
		return errors.Join(k.check.Err(), errors.New("inside: "+broken))
	}
	return k.check.Err()
}

// drain ends all pods and checks that every started call has ended (INV-17) and that no state
// remains (W28, INV-18, INV-14).
func (k *walk) drain(w *scenario) error {
	feed := func(events []podworkers.TraceEvent) {
		for _, e := range events {
			k.check.Event(e)
		}
	}
	if k.x.Stopped() {
		return nil
	}
	if !k.x.Open() {
		feed(k.x.Run())
	}
	feed(k.x.Wait(2 * time.Second)) // the pause after failures
	for round := 0; round < 12 && k.x.Remaining() != ""; round++ {
		feed(k.x.Known(nil))
		if err := k.err(); err != nil {
			return fmt.Errorf("while all pods end: %w", err)
		}
		for _, uid := range w.uids {
			if k.x.Running(uid) != podworkers.CallNone {
				feed(k.x.End(uid, false, nil))
			}
		}
		if err := k.err(); err != nil {
			return fmt.Errorf("while all pods end: %w", err)
		}
	}
	if left := k.x.Remaining(); left != "" {
		return fmt.Errorf("INV-17, INV-18: pods remain at the end: %s", left)
	}
	return nil
}

func (k *walk) appendKey(b []byte) []byte {
	return append(k.x.AppendKey(b), k.check.String()...)
}

func (p path) extend(i int) path { return append(slices.Clip(p), uint8(i)) }
