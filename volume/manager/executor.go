package manager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/volume"
)

func (m *Manager) perform(ctx context.Context, op *operation) (out outcome) {
	switch op.kind {
	case doMount:
		out.mounted, out.err = m.mount(ctx, op)
	case doUnmount:
		out.err = m.unmount(ctx, op)
	case doExpand:
		out.size, out.grown, out.err = m.expand(ctx, op)
	case doVerify:
		out.attach, out.device, out.err = m.verify(ctx, op)
	case doStage:
		out.path, out.err = op.plugin.(volume.Stager).Stage(ctx, op.stage)
	case doUnstage:
		out.err = op.plugin.(volume.Stager).Unstage(ctx, op.id.Volume)
	case doList:
		out.ids, out.err = op.plugin.(volume.Stager).Staged(ctx)
	case doRead:
		out.found, out.err = m.volumesOnDisk(op.uid)
	case doScan:
		if m.cfg.SubPaths != nil {
			if out.err = m.cfg.SubPaths.ReleasePod(ctx, op.uid); out.err != nil {
				out.err = fmt.Errorf("sub paths: %w", out.err)
				return out
			}
		}
		out.found, out.err = m.volumesOnDisk(op.uid)
	case doFinish:
		out.err = m.removeFolders(op.uid)
		if out.err != nil {
			var err error
			out.found, err = m.volumesOnDisk(op.uid)
			out.err = run.Join(out.err, err)
		}
	}
	return out
}

func (m *Manager) dir(op *operation) string {
	if op.unmount.Block {
		return m.cfg.Layout.Device(op.uid, op.pluginName(), op.unmount.Name)
	}
	return m.cfg.Layout.Volume(op.uid, op.pluginName(), op.unmount.Name)
}

const folderMode = 0o750

func (m *Manager) mount(ctx context.Context, op *operation) (volume.Mounted, error) {
	args := op.mount
	args.Dir = m.dir(op)
	args.OnProgress = m.ownershipProgress(args.Pod, args.Dir)
	args.StateDir = m.cfg.Layout.State(op.uid, op.pluginName(), op.unmount.Name)
	if err := os.MkdirAll(filepath.Dir(args.Dir), folderMode); err != nil {
		return volume.Mounted{}, volume.Transient(err)
	}
	mounted, err := op.plugin.Mount(ctx, args)
	return mounted, atPodField(args.Pod, args.Spec, err)
}

// atPodField prepends the field of the volume to the paths of FieldErrors.
func atPodField(pod *v1.Pod, spec *volume.Spec, err error) error {
	if spec.Inline == nil || !errors.As(err, new(*volume.FieldError)) {
		return err
	}
	i := slices.IndexFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == spec.Name })
	return volume.AtField(fmt.Sprintf("spec.volumes[%d]", i), err)
}

func (m *Manager) unmount(ctx context.Context, op *operation) error {
	args := op.unmount
	args.Dir = m.dir(op)
	args.StateDir = m.cfg.Layout.State(op.uid, op.pluginName(), op.unmount.Name)
	if op.plugin == nil {
		// Without the plugin, only an empty folder that is no mount point is removed.
		if err := removeEmpty(args.Dir); err != nil {
			return fmt.Errorf("this agent has no plugin %q: %w", op.pluginName(), err)
		}
		return nil
	}
	return op.plugin.Unmount(ctx, args)
}

// verify reports whether a volume must be attached, and returns its device.
func (m *Manager) verify(ctx context.Context, op *operation) (attach bool, device string, err error) {
	p, ok := op.plugin.(volume.Attachable)
	if !ok || m.cfg.Attachments == nil {
		return false, "", nil
	}
	if attach, err = p.Attaches(ctx, op.spec); err != nil || !attach {
		return attach, "", err
	}
	device, err = m.cfg.Attachments.Attached(ctx, op.id, op.spec)
	if err != nil {
		err = fmt.Errorf("not attached to the node: %w", err)
	}
	return true, device, err
}

// errNotExpanded is the error for a volume that the controller has not expanded yet, or not at
// all.
var errNotExpanded = errors.New("the claim does not request an expansion by this node")

// expand expands a volume and returns its size, or zero if the size is unknown.
func (m *Manager) expand(ctx context.Context, op *operation) (size int64, grown bool, err error) {
	do := func() error {
		_, err := op.plugin.(volume.Expander).Expand(ctx, op.spec, op.staged, m.dir(op))
		return err
	}
	resizes := m.cfg.Resizes
	if resizes == nil {
		if err := do(); err != nil {
			return 0, false, err
		}
		return op.size, op.grown != 0, nil
	}
	size, wanted, err := resizes.BeginResize(ctx, op.spec)
	switch {
	case err != nil:
		return 0, false, volume.Transient(err)
	case !wanted && size < op.size:
		return size, false, volume.Transient(errNotExpanded)
	case !wanted:
		return size, false, nil
	}
	err = do()
	if err = run.Join(err, resizes.EndResize(ctx, op.spec, err)); err != nil {
		return 0, false, err
	}
	return op.size, true, nil
}
