package main

import (
	"context"
	"encoding/json"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// resource is the resource of workloads (crd.yaml).
var resource = schema.GroupVersionResource{Group: "operator.podwright.dev", Version: "v1", Resource: "workloads"}

// finalizer keeps a workload until its pod has ended.
const finalizer = "operator.podwright.dev/runs"

// workload is a Workload object of the API server.
type workload struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Runner string          `json:"runner"`
		Pod    json.RawMessage `json:"pod"`
	} `json:"spec"`
	Status struct {
		v1.PodStatus `json:",inline"`
		// Refused is the reason why the newest spec is not used, or not stored.
		Refused string `json:"refused,omitempty"`
	} `json:"status"`
}

// setFinalizer adds or removes the finalizer. It fails if the workload has changed since one was read.
func (w *workloads) setFinalizer(ctx context.Context, one *workload, set bool) error {
	all := slices.DeleteFunc(slices.Clone(one.Finalizers), func(f string) bool { return f == finalizer })
	if set {
		all = append(all, finalizer)
	}
	return w.patch(ctx, one, map[string]any{"metadata": map[string]any{"finalizers": all, "resourceVersion": one.ResourceVersion}})
}

func (w *workloads) patch(ctx context.Context, one *workload, change map[string]any, subresource ...string) error {
	text, err := json.Marshal(change)
	if err == nil {
		_, err = w.client.Namespace(one.Namespace).Patch(ctx, one.Name, types.MergePatchType, text, metav1.PatchOptions{}, subresource...)
	}
	return err
}

func decode(obj any) (*workload, error) {
	var one workload
	text, err := obj.(*unstructured.Unstructured).MarshalJSON()
	if err == nil {
		err = json.Unmarshal(text, &one)
	}
	return &one, err
}
