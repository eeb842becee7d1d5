package agent

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/examples/kubelet/server"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/syncloop"
)

// The limits of recentEvents: kinds of events per pod, bytes of a message, and pods. The pods are
// limited for the time between a flood of pods and the next cleanup.
const (
	recentPerPod  = 20
	recentMessage = 1 << 10
	recentPods    = 4096
)

// recentEvents keeps the newest events of each pod until the pod ends. It is safe for concurrent
// use. A nil recentEvents keeps no events.
type recentEvents struct {
	mu   sync.Mutex
	pods map[types.UID]*podEvents
}

// podEvents are the events of one pod, the newest last. kills are the newest stops of its
// containers.
type podEvents struct {
	events []server.EventReport
	kills  map[string]kill
}

// kill is the decision to stop a container.
type kill struct {
	message string
	at      time.Time
}

func newRecentEvents() *recentEvents {
	return &recentEvents{pods: map[types.UID]*podEvents{}}
}

func (r *recentEvents) add(ref v1.ObjectReference, eventtype, reason, message string, now time.Time) {
	if r == nil || ref.Kind != "Pod" || ref.UID == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pods[ref.UID]
	if p == nil {
		if len(r.pods) >= recentPods {
			return
		}
		p = &podEvents{kills: map[string]kill{}}
		r.pods[ref.UID] = p
	}
	p.add(server.EventReport{Type: eventtype, Reason: reason, Message: shorten(message, recentMessage), Container: containerOf(ref.FieldPath), Count: 1, At: now})
}

// add counts an event that equals an earlier one, and drops the oldest event beyond the limit.
func (p *podEvents) add(e server.EventReport) {
	if e.Reason == "Killing" && e.Container != "" && (len(p.kills) < recentPerPod || p.kills[e.Container].message != "") {
		p.kills[e.Container] = kill{message: e.Message, at: e.At}
	}
	same := func(o server.EventReport) bool {
		return o.Type == e.Type && o.Reason == e.Reason && o.Message == e.Message && o.Container == e.Container
	}
	if i := slices.IndexFunc(p.events, same); i >= 0 {
		e.Count += p.events[i].Count
		p.events = slices.Delete(p.events, i, i+1)
	}
	if p.events = append(p.events, e); len(p.events) > recentPerPod {
		p.events = slices.Delete(p.events, 0, 1)
	}
}

// of returns the events of a pod, the newest first, and the newest stop of each container.
func (r *recentEvents) of(uid types.UID) (events []server.EventReport, kills map[string]kill) {
	if r == nil {
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pods[uid]
	if p == nil {
		return nil, nil
	}
	events = slices.Clone(p.events)
	slices.Reverse(events)
	return events, maps.Clone(p.kills)
}

// keep drops the events of all pods but the desired ones and those with a worker.
func (r *recentEvents) keep(desired []*v1.Pod, workers map[types.UID]podworkers.KnownPod) {
	stay := make(map[types.UID]bool, len(desired))
	for _, pod := range desired {
		stay[pod.UID] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid := range r.pods {
		if _, ok := workers[uid]; !ok && !stay[uid] {
			delete(r.pods, uid)
		}
	}
}

func (r *recentEvents) cleaner() syncloop.Cleaner {
	return syncloop.Cleaner{Name: "recent events", Clean: func(_ context.Context, cleanup *syncloop.Cleanup) error {
		r.keep(cleanup.Pods, cleanup.Known)
		return nil
	}}
}

// containerOf returns the container of a field path such as "spec.containers{web}", or "".
func containerOf(fieldPath string) string {
	_, rest, _ := strings.Cut(fieldPath, "{")
	name, _, found := strings.Cut(rest, "}")
	if !found {
		return ""
	}
	return name
}

// shorten cuts a text to at most limit bytes, at the boundary of a character.
func shorten(text string, limit int) string {
	if len(text) <= limit {
		return strings.Clone(text)
	}
	const mark = "…"
	end := max(limit-len(mark), 0)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}
