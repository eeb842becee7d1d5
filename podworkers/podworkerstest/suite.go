package podworkerstest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/bubbletest"
	"github.com/podwright/podwright/podworkers"
)

// Subject is a syncer under test with its views. The pods of Run have one container "main" with the
// image "v1", later "v2".
type Subject struct {
	// Syncer is the syncer. Required.
	Syncer podworkers.PodSyncer
	// Restart returns the syncer of the next agent, on the state that Syncer has left. The views stay
	// valid. Optional: without it lives with a restart of the agent are skipped.
	Restart func() podworkers.PodSyncer
	// Running, Status and Held are the views of Recorder.Running, Status and Held. Running is
	// required; without the others their rules are not checked.
	Running Running
	Status  Status
	Held    Held
	// Exit ends the running containers of a pod with an exit code. Optional: without it lives with
	// exits are skipped.
	Exit func(uid types.UID, code int32)
	// FailStarts makes all starts fail, or succeed again. Optional: without it lives with failures
	// are skipped.
	FailStarts func(fail bool)
}

// Run plays standard lives of pods with a syncer, one per subtest, and checks all rules: a life, a
// kill during the start, a shrinking grace period, an update, restarts of the agent, exits under
// each restart policy, and failed starts. newSubject is called for each life, in a bubble of
// testing/synctest. A life that stops the clock of its bubble, such as by waiting for a socket or by
// sleeping under a lock, fails after seconds.
func Run(t *testing.T, newSubject func(t *testing.T) Subject) {
	suite := bubbletest.Cases{Around: synctest.Test}
	for _, life := range lives() {
		t.Run(life.name, func(t *testing.T) {
			suite.Run(t, func(t *testing.T, tb testing.TB) {
				a := newAgent(tb, newSubject(t))
				if a.lacks(life.needs) {
					tb.Skip("the Subject lacks a function for this life")
				}
				life.play(a)
				a.end()
				a.report()
			})
		})
	}
}

// RunRandom plays random lives and checks all rules. It stops at the first violation and prints the
// steps of that life. The same seed gives the same lives.
func RunRandom(t *testing.T, seed uint64, count int, newSubject func(t *testing.T) Subject) {
	suite := bubbletest.Cases{Around: synctest.Test}
	random := rand.New(rand.NewPCG(seed, 0))
	for i := 0; i < count && !t.Failed(); i++ {
		suite.Run(t, func(t *testing.T, tb testing.TB) {
			a := newAgent(tb, newSubject(t))
			playRandom(a, random)
			a.end()
			if a.report(); len(a.errs) > 0 {
				tb.Logf("life %d of seed %d: %s", i, seed, strings.Join(a.steps, "; "))
			}
		})
	}
}

// agent runs workers with the syncer of a Subject.
type agent struct {
	t testing.TB
	s Subject

	syncer  podworkers.PodSyncer
	rec     *Recorder
	workers *podworkers.Workers
	stop    func()
	// pods are the desired pods and the killed ones that have not ended.
	pods  map[types.UID]*v1.Pod
	kills map[types.UID]int64
	steps []string
	errs  []error
}

func newAgent(t testing.TB, s Subject) *agent {
	if s.Syncer == nil || s.Running == nil {
		t.Fatal("podworkerstest: Subject.Syncer and Subject.Running are required")
	}
	a := &agent{t: t, s: s, syncer: s.Syncer, pods: map[types.UID]*v1.Pod{}, kills: map[types.UID]int64{}}
	a.start()
	return a
}

// start starts workers. Their Recorder follows the earlier one.
func (a *agent) start() {
	cfg := podworkers.Config{Syncer: a.syncer, TerminalPodStopped: func(uid types.UID) bool {
		ids, err := a.s.Running(uid)
		return err == nil && len(ids) == 0
	}}
	earlier := a.rec
	a.rec = Record(&cfg)
	a.rec.Running(a.s.Running)
	a.rec.Status(a.s.Status)
	a.rec.Held(a.s.Held)
	if earlier != nil {
		a.rec.Follow(earlier)
	}
	var err error
	if a.workers, err = podworkers.New(cfg); err != nil {
		a.t.Fatalf("podworkerstest: %v", err)
	}
	ctx, cancel := context.WithCancel(a.t.Context())
	ran := make(chan error, 1)
	go func() { ran <- a.workers.Run(ctx) }()
	a.stop = func() {
		cancel()
		if err := <-ran; err != nil {
			a.fail("Run: %w", err)
		}
		synctest.Wait()
	}
}

// end removes all pods and checks the rules.
func (a *agent) end() {
	for uid := range a.pods {
		a.kill(uid, 2)
	}
	a.wait(3 * time.Minute)
	a.workers.SyncKnownPods(nil)
	a.wait(time.Minute)
	a.check(a.workers)
	for uid := range a.pods {
		if ids, err := a.s.Running(uid); err != nil {
			a.fail("list running containers of pod %s: %v", uid, err)
		} else if len(ids) > 0 {
			a.fail("pod %s: containers run after its end: %v", uid, ids)
		}
	}
	for _, p := range a.workers.Pods() {
		a.fail("the pod has not ended: %v", p)
	}
	a.stop()
}

func (a *agent) fail(format string, args ...any) {
	a.errs = append(a.errs, fmt.Errorf("podworkerstest: "+format, args...))
}

// check adds the violations to errs.
func (a *agent) check(workers Workers) {
	if err := a.rec.Check(workers); err != nil {
		a.errs = append(a.errs, err)
	}
}

func (a *agent) report() {
	for _, err := range a.errs {
		a.t.Error(err)
	}
}

func (a *agent) step(format string, args ...any) {
	a.steps = append(a.steps, fmt.Sprintf(format, args...))
}

func (a *agent) send(u podworkers.Update) {
	if err := a.workers.UpdatePod(u); err != nil {
		a.fail("UpdatePod: %w", err)
	}
}

// create makes a pod and passes it to the workers.
func (a *agent) create(uid types.UID, policy v1.RestartPolicy) {
	if a.pods[uid] != nil {
		return
	}
	a.step("create %s %s", uid, policy)
	grace := int64(10)
	a.pods[uid] = &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: uid, Name: "pod-" + string(uid), Namespace: "default", Generation: 1},
		Spec: v1.PodSpec{
			RestartPolicy: policy, TerminationGracePeriodSeconds: &grace,
			Containers: []v1.Container{{Name: "main", Image: "v1"}},
		},
	}
	a.send(podworkers.Update{Type: podworkers.UpdateCreate, Pod: a.pods[uid]})
}

// update changes the image.
func (a *agent) update(uid types.UID) {
	pod := a.pods[uid]
	if pod == nil || a.kills[uid] > 0 {
		return
	}
	a.step("update %s", uid)
	pod = pod.DeepCopy()
	pod.Generation++
	pod.Spec.Containers[0].Image = fmt.Sprintf("v%d", pod.Generation)
	a.pods[uid] = pod
	a.send(podworkers.Update{Type: podworkers.UpdateUpdate, Pod: pod})
}

func (a *agent) kill(uid types.UID, grace int64) {
	if a.pods[uid] == nil {
		return
	}
	a.step("kill %s grace=%d", uid, grace)
	a.kills[uid] = grace
	a.send(podworkers.Update{Type: podworkers.UpdateKill, Pod: a.pods[uid], Kill: &podworkers.KillOptions{GracePeriodSeconds: &grace}})
}

func (a *agent) exit(uid types.UID, code int32) {
	a.step("exit %s %d", uid, code)
	a.s.Exit(uid, code)
	a.sync()
}

func (a *agent) failStarts(fail bool) {
	a.step("fail starts %t", fail)
	a.s.FailStarts(fail)
}

// sync sends an update of each running pod, as an event of the runtime does.
func (a *agent) sync() {
	for uid, pod := range a.pods {
		if a.kills[uid] == 0 {
			a.send(podworkers.Update{Type: podworkers.UpdateSync, Pod: pod})
		}
	}
}

// wait lets time pass, with a sync every 5 s.
func (a *agent) wait(d time.Duration) {
	a.step("wait %v", d)
	for ; d > 0; d -= 5 * time.Second {
		a.sync()
		time.Sleep(min(d, 5*time.Second))
		synctest.Wait()
	}
}

// restart replaces the agent. The next one receives the same pods and kills.
func (a *agent) restart() {
	a.step("restart")
	a.stop()
	a.check(nil)
	a.syncer = a.s.Restart()
	a.start()
	for uid, pod := range a.pods {
		if a.s.Status != nil {
			if s := a.s.Status(uid); s != nil {
				pod = pod.DeepCopy()
				pod.Status = *s
				a.pods[uid] = pod
			}
		}
		a.send(podworkers.Update{Type: podworkers.UpdateCreate, Pod: pod})
		if grace := a.kills[uid]; grace > 0 {
			a.kill(uid, grace)
		}
	}
	synctest.Wait()
}
