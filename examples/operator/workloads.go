package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/status/writer"
	"github.com/podwright/podwright/syncloop/podsource"
)

// workloads are those of one operator: where its pods come from, and the sink of their statuses.
type workloads struct {
	runner   string
	client   dynamic.NamespaceableResourceInterface
	informer cache.SharedIndexInformer
	changed  chan struct{}
	statuses *writer.Writer // hears of deletions
	decoder  podsource.Decoder

	good map[types.UID]*v1.Pod  // of those that are held: the newest that could be used
	file func(types.UID) string // where that is kept for the operator that comes after a crash
}

func newWorkloads(client dynamic.Interface, runner string, file func(types.UID) string) *workloads {
	w := &workloads{
		runner: runner, file: file, client: client.Resource(kind), changed: make(chan struct{}, 1), good: map[types.UID]*v1.Pod{},
		informer: dynamicinformer.NewFilteredDynamicInformer(client, kind, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer(),
		decoder:  podsource.Decoder{NodeName: runner, Volumes: []string{"image"}, Check: refuse},
	}
	_, _ = w.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{ // fails only once it has ended
		AddFunc: func(any) { w.look() }, UpdateFunc: func(any, any) { w.look() }, DeleteFunc: func(any) { w.look() },
	})
	return w
}

// look has sets look at the workloads once more.
func (w *workloads) look() {
	select {
	case w.changed <- struct{}{}:
	default: // it is to look anyway
	}
}

// refuse names what would take files of this machine, or is not done here.
func refuse(pod *v1.Pod) []error {
	errs := append(pods.Unsupported(pod), probe.Validate(pod)...)
	if len(pod.Spec.HostAliases) > 0 {
		errs = append(errs, errors.New("spec.hostAliases: takes a file on the runtime's machine"))
	}
	return errs
}

func (w *workloads) run(ctx context.Context) error {
	w.informer.RunWithContext(ctx)
	return nil
}

// sets are the pods that there should be, each time that something changes.
func (w *workloads) sets(ctx context.Context) iter.Seq2[[]*v1.Pod, error] {
	return func(yield func([]*v1.Pod, error) bool) {
		for cache.WaitForCacheSync(ctx.Done(), w.informer.HasSynced) {
			pods := w.pods(ctx)
			if !yield(pods, nil) {
				return
			}
			for _, pod := range pods {
				w.statuses.Observe("api", pod)
			}
			select {
			case <-w.changed:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (w *workloads) pods(ctx context.Context) (all []*v1.Pod) {
	before := w.good
	w.good = map[types.UID]*v1.Pod{}
	for _, obj := range w.informer.GetStore().List() {
		one, err := decode(obj)
		if err != nil || one.Spec.Runner != w.runner {
			continue
		}
		w.good[one.UID] = before[one.UID]
		if pod := w.pod(ctx, one); pod != nil {
			all = append(all, pod)
		}
	}
	for uid := range before {
		if _, there := w.good[uid]; !there {
			_ = os.Remove(w.file(uid)) // what is left is read by nobody
		}
	}
	slices.SortFunc(all, func(a, b *v1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return all
}

// pod is what a workload wants. One that wants nonsense now runs on as it was, and says so.
func (w *workloads) pod(ctx context.Context, one *workload) *v1.Pod {
	refused, before := "", w.good[one.UID]
	pod, err := w.decode(one, one.Spec.Pod)
	if err == nil {
		err = os.WriteFile(w.file(one.UID), one.Spec.Pod, 0o600)
	}
	if err != nil {
		refused = err.Error()
		if kept, err := os.ReadFile(w.file(one.UID)); err == nil && before == nil {
			pod, _ = w.decode(one, kept) // nil, if it was half written when there was no room
		}
	}
	if pod != nil {
		w.good[one.UID] = pod
	}
	if refused != one.Status.Refused {
		slog.Info("a workload's spec", "workload", one.Namespace+"/"+one.Name, "refused", refused)
		_ = w.patch(ctx, one, map[string]any{"status": map[string]any{"refused": refused}}, "status") // the log has it, too
	}
	held := slices.Contains(one.Finalizers, finalizer)
	switch pod = w.good[one.UID]; {
	case pod == nil && held && one.DeletionTimestamp != nil:
		w.again(w.hold(ctx, one, false)) // it has never run
	case pod == nil, !held && one.DeletionTimestamp != nil:
		return nil
	case !held && w.again(w.hold(ctx, one, true)):
		// New, it would not be known when nothing of it is left: not yet. One that is held
		// runs on: the informer is behind, and what it has conflicts with what we wrote.
		w.good[one.UID] = before
		return before
	}
	if pod != nil && one.DeletionTimestamp != nil {
		pod = pod.DeepCopy()
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = one.DeletionTimestamp, pod.Spec.TerminationGracePeriodSeconds
	}
	return pod
}

// again has sets look again soon after a failure, since no change may come to tell of it.
func (w *workloads) again(err error) bool {
	if err != nil {
		time.AfterFunc(time.Second, w.look)
	}
	return err != nil
}

func (w *workloads) decode(one *workload, spec []byte) (*v1.Pod, error) {
	pod, err := w.decoder.Decode(fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": %q, "namespace": %q, "uid": %q}, "spec": %s}`, one.Name, one.Namespace, one.UID, spec), one.Namespace+"/"+one.Name)
	if err == nil {
		pod.Name, pod.CreationTimestamp, pod.Status = one.Name, one.CreationTimestamp, one.Status.PodStatus
	}
	return pod, err
}
