package main

import (
	"bytes"
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

// workloads is the source of the operator's pods and the sink of their statuses.
type workloads struct {
	runner   string
	client   dynamic.NamespaceableResourceInterface
	informer cache.SharedIndexInformer
	changed  chan struct{}
	statuses *writer.Writer // receives deletions; set before the source runs
	decoder  podsource.Decoder

	good map[types.UID]*v1.Pod  // the newest valid pod of each workload, or nil
	file func(types.UID) string // the file with its spec, for the next operator
}

func newWorkloads(client dynamic.Interface, runner string, file func(types.UID) string) *workloads {
	w := &workloads{
		runner: runner, file: file, client: client.Resource(resource), changed: make(chan struct{}, 1), good: map[types.UID]*v1.Pod{},
		informer: dynamicinformer.NewFilteredDynamicInformer(client, resource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer(),
		decoder:  podsource.Decoder{NodeName: runner, Volumes: []string{"image"}, Check: checkSupported},
	}
	_, _ = w.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{ // fails only after the informer has stopped
		AddFunc: func(any) { w.trigger() }, UpdateFunc: func(any, any) { w.trigger() }, DeleteFunc: func(any) { w.trigger() },
	})
	return w
}

// trigger triggers another pass of sets.
func (w *workloads) trigger() {
	select {
	case w.changed <- struct{}{}:
	default: // a pass is pending
	}
}

// checkSupported returns errors for fields that need files of this machine or are not supported.
func checkSupported(pod *v1.Pod) []error {
	errs := append(pods.Unsupported(pod), probe.Validate(pod)...)
	if len(pod.Spec.HostAliases) > 0 {
		errs = append(errs, errors.New("spec.hostAliases: not supported, because it needs a file on the runtime's machine"))
	}
	return errs
}

// run watches the workloads until ctx is done.
func (w *workloads) run(ctx context.Context) error {
	w.informer.RunWithContext(ctx)
	return nil
}

// sets yields the desired pods after each change.
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

// pods returns the desired pods of the runner's workloads, the oldest first.
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
			_ = os.Remove(w.file(uid)) // a leftover file is harmless
		}
	}
	slices.SortFunc(all, func(a, b *v1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return all
}

// pod returns the desired pod of a workload, or nil. A pod starts only after its workload has the
// finalizer, because the operator would miss its deletion otherwise.
func (w *workloads) pod(ctx context.Context, one *workload) *v1.Pod {
	before, pod := w.good[one.UID], w.newest(ctx, one)
	deleted, hasFinalizer := one.DeletionTimestamp != nil, slices.Contains(one.Finalizers, finalizer)
	switch {
	case pod == nil && deleted && hasFinalizer:
		w.retry(w.setFinalizer(ctx, one, false)) // the pod has never run
		return nil
	case pod == nil, deleted && !hasFinalizer:
		return nil
	case !hasFinalizer && w.retry(w.setFinalizer(ctx, one, true)):
		// The pod of an earlier pass continues: the informer lags, and its version conflicts with
		// the operator's own write.
		return before
	}
	w.good[one.UID] = pod
	if deleted {
		pod = pod.DeepCopy()
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = one.DeletionTimestamp, pod.Spec.TerminationGracePeriodSeconds
	}
	return pod
}

// newest returns the newest valid pod of a workload, or nil. The workload's status has the reason if
// this is not the newest spec, or if the spec could not be stored.
func (w *workloads) newest(ctx context.Context, one *workload) *v1.Pod {
	pod, err := w.decode(one, one.Spec.Pod)
	if err == nil {
		err = w.store(one)
	} else if pod = w.good[one.UID]; pod == nil {
		kept, _ := os.ReadFile(w.file(one.UID))
		pod, _ = w.decode(one, kept) // nil without a file
	}
	refused := ""
	if err != nil {
		refused = err.Error()
	}
	if refused != one.Status.Refused {
		slog.Info("Workload spec checked", "workload", one.Namespace+"/"+one.Name, "refused", refused)
		_ = w.patch(ctx, one, map[string]any{"status": map[string]any{"refused": refused}}, "status") // the log has it, too
	}
	return pod
}

// store stores a workload's spec. After a kill or with a full disk its file has the previous spec.
func (w *workloads) store(one *workload) error {
	file := w.file(one.UID)
	if stored, err := os.ReadFile(file); err == nil && bytes.Equal(stored, one.Spec.Pod) {
		return nil
	}
	if err := os.WriteFile(file+".new", one.Spec.Pod, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// retry triggers another pass a second after a failure, because no event may follow.
func (w *workloads) retry(err error) bool {
	if err != nil {
		time.AfterFunc(time.Second, w.trigger)
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
