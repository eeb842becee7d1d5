package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/examples/kubelet/csi/csitest"
	"github.com/podwright/podwright/examples/tools/testbed/tb"
	"github.com/podwright/podwright/examples/tools/testbed/tb/controlplane"
)

// storage is a node with two CSI drivers and implementations of external-provisioner, -attacher and
// -resizer. The first driver attaches and stages persistent volumes, the second one has inline
// volumes.
type storage struct {
	*node
	proxy  *proxy
	api    *apiserver.Client
	driver *csitest.Driver
	inline *csitest.Driver
	end    func()
	other  string // file of another CA certificate

	mu         sync.Mutex
	violations []error // violated rules
	lost       string  // handle of a volume that was deleted in spite of its claim

	unattached sync.Map     // claims that stay unattached
	fault      atomic.Value // the driverFault of the first driver
}

type driverFault func(ctx context.Context, method, handle string) error

func noFault(context.Context, string, string) error { return nil }

// newStorage starts the node, the drivers and the controllers. They outlive the node's clean-up.
func newStorage(t *testing.T, plane controlplane.Handle, rt tb.Runtime) *storage {
	data := t.TempDir() // created before the clean-up of stop, so that it is removed after it
	s := &storage{}
	s.setFault(noFault)
	t.Cleanup(s.stop)
	s.node, s.proxy = behindProxy(t, plane, rt)
	s.proxy.shortTokens.Store(true)
	var err error
	s.api, err = apiserver.New(apiserver.Config{Kubeconfig: plane.Kubeconfig, UserAgent: "storage/1", Limits: apiserver.Limits{QPS: -1}})
	require.NoError(t, err)
	registry := filepath.Join(s.root, "plugins_registry")
	s.driver = &csitest.Driver{
		Name: "disks." + s.name, Registry: registry, RegistrySocket: "d.sock", Socket: filepath.Join(s.dir, "disks.sock"), Stages: true, Data: data, MaxVolumes: 100,
		Fault: s.onCall,
	}
	s.inline = &csitest.Driver{Name: "inline." + s.name, Registry: registry, RegistrySocket: "i.sock", Socket: filepath.Join(s.dir, "inline.sock")}
	s.applyStorage(t, `
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: DRIVER}
spec: {attachRequired: true}
---
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: INLINE}
spec: {attachRequired: false, podInfoOnMount: true, requiresRepublish: true, fsGroupPolicy: None, volumeLifecycleModes: [Ephemeral], tokenRequests: [{audience: bank, expirationSeconds: 600}]}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: NODE-now}
provisioner: DRIVER
allowVolumeExpansion: true
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: NODE-later}
provisioner: DRIVER
volumeBindingMode: WaitForFirstConsumer
`)
	require.NoError(t, s.driver.Start())
	require.NoError(t, s.inline.Start())
	ctx, cancel := context.WithCancel(context.Background()) // the controllers run during the clean-up
	var controllers sync.WaitGroup
	s.end = func() { cancel(); controllers.Wait() }
	for _, reconcile := range []func(context.Context) error{s.provision, s.attach, s.resize} {
		controllers.Go(func() {
			for ctx.Err() == nil {
				if err := reconcile(ctx); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
					s.addViolation(err)
				}
				select {
				case <-ctx.Done():
				case <-time.After(200 * time.Millisecond):
				}
			}
		})
	}
	s.waitMatch(t, "csinode", s.name, "{.spec.drivers[*].name}", func(names string) bool {
		return strings.Contains(names, s.driver.Name) && strings.Contains(names, s.inline.Name)
	})
	return s
}

func (s *storage) stop() {
	if s.end != nil {
		s.end()
	}
	for _, d := range []*csitest.Driver{s.driver, s.inline} {
		if d != nil {
			d.Stop()
		}
	}
	if s.driver != nil {
		remaining, _ := filepath.Glob(s.driver.Data + "/*")
		for _, path := range remaining {
			_ = s.driver.Delete(filepath.Base(path))
		}
	}
	if s.api != nil {
		s.api.CloseConnections()
	}
}

// applyStorage is apply with the names of drivers.
func (s *storage) applyStorage(t *testing.T, yaml string) {
	t.Helper()
	s.apply(t, strings.NewReplacer("DRIVER", s.driver.Name, "INLINE", s.inline.Name).Replace(yaml))
}

func (s *storage) addViolation(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.violations) < 10 {
		s.violations = append(s.violations, err)
	}
}

// violationError returns the violations recorded so far.
func (s *storage) violationError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.violations...)
}

// onCall is the first driver's Fault. It checks that a volume is staged only after the Node lists
// it as in use and attached: a controller may detach all other volumes.
func (s *storage) onCall(ctx context.Context, method string) error {
	handle := csitest.VolumeOf(ctx)
	if method == "NodeStageVolume" {
		if inUse, attached, err := s.nodeState(ctx, handle); err != nil || !inUse || !attached {
			s.addViolation(fmt.Errorf("%s is staged: in use %t, attached %t: %w", handle, inUse, attached, err))
		}
	}
	return s.fault.Load().(driverFault)(ctx, method, handle)
}

func (s *storage) setFault(f driverFault) { s.fault.Store(f) }

func (s *storage) nodeState(ctx context.Context, handle string) (inUse, attached bool, err error) {
	n, err := s.api.Nodes().Get(ctx, s.name, metav1.GetOptions{})
	if err != nil {
		return false, false, err
	}
	name := v1.UniqueVolumeName("kubernetes.io/csi/" + s.driver.Name + "^" + handle)
	attached = slices.ContainsFunc(n.Status.VolumesAttached, func(v v1.AttachedVolume) bool { return v.Name == name })
	return slices.Contains(n.Status.VolumesInUse, name), attached, nil
}

// staged reports whether a volume is staged, or its staging has begun.
func (s *storage) staged(handle string) bool {
	for _, call := range slices.Backward(s.driver.Log()) {
		switch call {
		case "begin NodeStageVolume " + handle:
			return true
		case "NodeUnstageVolume " + handle:
			return false
		}
	}
	return false
}

// provision creates the volumes of claims, and removes volumes of deleted claims.
func (s *storage) provision(ctx context.Context) error {
	claims, err := s.api.PersistentVolumeClaims(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var errs []error
	for i := range claims.Items {
		if c := &claims.Items[i]; c.Annotations["volume.kubernetes.io/storage-provisioner"] == s.driver.Name && c.Spec.VolumeName == "" && c.DeletionTimestamp == nil {
			errs = append(errs, s.provisionFor(ctx, c))
		}
	}
	return errors.Join(append(errs, s.removeReleased(ctx))...)
}

func (s *storage) provisionFor(ctx context.Context, c *v1.PersistentVolumeClaim) error {
	size := c.Spec.Resources.Requests[v1.ResourceStorage]
	mode := *c.Spec.VolumeMode
	if err := s.driver.Create(string(c.UID), size.Value(), mode == v1.PersistentVolumeBlock); err != nil {
		return err
	}
	_, err := s.api.PersistentVolumes().Create(ctx, &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + string(c.UID), Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": s.driver.Name}},
		Spec: v1.PersistentVolumeSpec{
			Capacity: v1.ResourceList{v1.ResourceStorage: size}, AccessModes: c.Spec.AccessModes, VolumeMode: &mode,
			ClaimRef:                      &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: c.Namespace, Name: c.Name, UID: c.UID},
			PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimDelete, StorageClassName: *c.Spec.StorageClassName,
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{
				Driver: s.driver.Name, VolumeHandle: string(c.UID), FSType: fsType(mode),
			}},
		},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func fsType(mode v1.PersistentVolumeMode) string {
	if mode == v1.PersistentVolumeBlock {
		return ""
	}
	return "tmpfs"
}

func (s *storage) removeReleased(ctx context.Context) error {
	volumes, err := s.volumes(ctx)
	if err != nil {
		return err
	}
	attachments, err := s.attachments(ctx)
	if err != nil {
		return err
	}
	for _, pv := range volumes {
		if pv.Status.Phase != v1.VolumeReleased || pv.Spec.PersistentVolumeReclaimPolicy != v1.PersistentVolumeReclaimDelete || attachments[pv.Name] != nil {
			continue
		}
		err = errors.Join(err, s.driver.Delete(pv.Spec.CSI.VolumeHandle), s.api.PersistentVolumes().Delete(ctx, pv.Name, metav1.DeleteOptions{}))
	}
	return err
}

func (s *storage) volumes(ctx context.Context) (map[string]*v1.PersistentVolume, error) {
	list, err := s.api.PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	out := map[string]*v1.PersistentVolume{}
	for i := range list.Items {
		if pv := &list.Items[i]; pv.Spec.CSI != nil && pv.Spec.CSI.Driver == s.driver.Name {
			out[pv.Name] = pv
		}
	}
	return out, nil
}

func (s *storage) attachments(ctx context.Context) (map[string]*storagev1.VolumeAttachment, error) {
	list, err := s.api.VolumeAttachments().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	out := map[string]*storagev1.VolumeAttachment{}
	for i := range list.Items {
		if a := &list.Items[i]; a.Spec.Attacher == s.driver.Name {
			out[*a.Spec.Source.PersistentVolumeName] = a
		}
	}
	return out, nil
}

// attach attaches and detaches as requested by the attach-detach controller.
func (s *storage) attach(ctx context.Context) error {
	attachments, err := s.attachments(ctx)
	if err != nil {
		return err
	}
	volumes, err := s.volumes(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(attachments)) {
		if pv := volumes[name]; pv != nil {
			if _, unattached := s.unattached.Load(pv.Spec.ClaimRef.Name); !unattached {
				errs = append(errs, s.attachOne(ctx, attachments[name], pv))
			}
		}
	}
	return errors.Join(errs...)
}

const attacher = "external-attacher/test"

func (s *storage) attachOne(ctx context.Context, a *storagev1.VolumeAttachment, pv *v1.PersistentVolume) (err error) {
	handle := pv.Spec.CSI.VolumeHandle
	switch {
	case a.DeletionTimestamp == nil && !a.Status.Attached:
		if !slices.Contains(a.Finalizers, attacher) {
			a.Finalizers = append(a.Finalizers, attacher)
			if a, err = s.api.VolumeAttachments().Update(ctx, a, metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
		s.driver.ControllerPublish(handle)
		a.Status.Attached, a.Status.AttachmentMetadata = true, map[string]string{"slot": "7"}
		_, err = s.api.VolumeAttachments().Update(ctx, a, metav1.UpdateOptions{}, "status")
	case a.DeletionTimestamp != nil && slices.Contains(a.Finalizers, attacher):
		// The controller requests a detachment only for volumes that the node does not report as in
		// use. By now the node may report it again, for a new pod that waits for the attachment.
		if s.staged(handle) {
			s.addViolation(fmt.Errorf("%s is detached while it is staged", handle))
		}
		s.driver.ControllerUnpublish(handle)
		a.Finalizers = slices.DeleteFunc(a.Finalizers, func(f string) bool { return f == attacher })
		_, err = s.api.VolumeAttachments().Update(ctx, a, metav1.UpdateOptions{})
	}
	return err
}

// resize grows volumes to the size of their claims and leaves the file systems to the node.
func (s *storage) resize(ctx context.Context) error {
	claims, err := s.api.PersistentVolumeClaims(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var errs []error
	for i := range claims.Items {
		c := &claims.Items[i]
		wanted, has := c.Spec.Resources.Requests[v1.ResourceStorage], c.Status.Capacity[v1.ResourceStorage]
		if at := c.Status.AllocatedResourceStatuses[v1.ResourceStorage]; c.Status.Phase != v1.ClaimBound || wanted.Cmp(has) <= 0 || strings.HasPrefix(string(at), "NodeResize") {
			continue
		}
		errs = append(errs, s.resizeOne(ctx, c))
	}
	return errors.Join(errs...)
}

func (s *storage) resizeOne(ctx context.Context, c *v1.PersistentVolumeClaim) (err error) {
	wanted := c.Spec.Resources.Requests[v1.ResourceStorage]
	if c, err = s.setResize(ctx, c, v1.PersistentVolumeClaimControllerResizeInProgress, v1.PersistentVolumeClaimResizing); err != nil {
		return err
	}
	pv, err := s.api.PersistentVolumes().Get(ctx, c.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	s.driver.ControllerExpand(pv.Spec.CSI.VolumeHandle)
	pv.Spec.Capacity[v1.ResourceStorage] = wanted
	if _, err = s.api.PersistentVolumes().Update(ctx, pv, metav1.UpdateOptions{}); err != nil {
		return err
	}
	_, err = s.setResize(ctx, c, v1.PersistentVolumeClaimNodeResizePending, v1.PersistentVolumeClaimFileSystemResizePending)
	return err
}

func (s *storage) setResize(ctx context.Context, c *v1.PersistentVolumeClaim, to v1.ClaimResourceStatus, why v1.PersistentVolumeClaimConditionType) (*v1.PersistentVolumeClaim, error) {
	c.Status.AllocatedResources = v1.ResourceList{v1.ResourceStorage: c.Spec.Resources.Requests[v1.ResourceStorage]}
	c.Status.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{v1.ResourceStorage: to}
	c.Status.Conditions = []v1.PersistentVolumeClaimCondition{{Type: why, Status: v1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	return s.api.PersistentVolumeClaims(c.Namespace).Update(ctx, c, metav1.UpdateOptions{}, "status")
}
