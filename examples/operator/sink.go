package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podwright/podwright/status"
)

// Get, Patch and Delete implement status.Sink.
func (w *workloads) Get(ctx context.Context, ref status.Ref) (*v1.Pod, error) {
	_, one, err := w.get(ctx, ref)
	if err != nil {
		return nil, err
	}
	return &v1.Pod{ObjectMeta: one.ObjectMeta, Status: one.Status.PodStatus}, nil
}

func (w *workloads) Patch(ctx context.Context, ref status.Ref, old, new *v1.PodStatus) (*v1.Pod, error) {
	obj, one, err := w.own(ctx, ref)
	if err != nil {
		return nil, err
	}
	one.Status.PodStatus = *status.Patched(&one.Status.PodStatus, old, new)
	if obj.Object["status"], err = runtime.DefaultUnstructuredConverter.ToUnstructured(&one.Status); err != nil {
		return nil, err
	}
	obj, err = w.client.Namespace(ref.Namespace).UpdateStatus(ctx, obj, metav1.UpdateOptions{})
	if err != nil {
		return nil, sinkError(ref, err)
	}
	one.ResourceVersion = obj.GetResourceVersion()
	return &v1.Pod{ObjectMeta: one.ObjectMeta, Status: one.Status.PodStatus}, nil
}

func (w *workloads) Delete(ctx context.Context, ref status.Ref) error {
	_, one, err := w.own(ctx, ref)
	if err != nil {
		return err
	}
	return sinkError(ref, w.setFinalizer(ctx, one, false))
}

func (w *workloads) get(ctx context.Context, ref status.Ref) (*unstructured.Unstructured, *workload, error) {
	obj, err := w.client.Namespace(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, nil, sinkError(ref, err)
	}
	one, err := decode(obj)
	return obj, one, err
}

// own returns the workload with the UID of ref.
func (w *workloads) own(ctx context.Context, ref status.Ref) (*unstructured.Unstructured, *workload, error) {
	obj, one, err := w.get(ctx, ref)
	if err == nil && one.UID != ref.UID {
		return nil, nil, fmt.Errorf("%v: %w", ref, status.ErrConflict)
	}
	return obj, one, err
}

// sinkError converts an error of the API server to an error of status.Sink.
func sinkError(ref status.Ref, err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%v: %w: %w", ref, status.ErrNotFound, err)
	case apierrors.IsConflict(err):
		return fmt.Errorf("%v: %w: %w", ref, status.ErrConflict, err)
	}
	return err
}
