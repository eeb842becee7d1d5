package csi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/objects"
)

// Keys of the volume context for a driver with podInfoOnMount or tokenRequests.
const (
	keyPodName        = "csi.storage.k8s.io/pod.name"
	keyPodNamespace   = "csi.storage.k8s.io/pod.namespace"
	keyPodUID         = "csi.storage.k8s.io/pod.uid"
	keyServiceAccount = "csi.storage.k8s.io/serviceAccount.name"
	keyEphemeral      = "csi.storage.k8s.io/ephemeral"
	keyTokens         = "csi.storage.k8s.io/serviceAccount.tokens"
)

// lookups has the inputs for calls of a driver. Errors of lookUp are transient, because no call
// has changed the volume yet.
type lookups struct {
	driver Driver
	can    Capabilities
	object *storagev1.CSIDriverSpec
	data   *data
}

func (p *Plugin) lookUp(ctx context.Context, spec *volume.Spec, pod *v1.Pod) (l lookups, err error) {
	if l.driver, err = p.driver(driverOf(spec)); err != nil {
		return l, err
	}
	if l.object, err = p.object(driverOf(spec)); err != nil {
		return l, fmt.Errorf("csi: %w", err)
	}
	if err := checkMode(spec, l.object); err != nil {
		return l, err
	}
	l.can, err = p.capabilities(ctx, driverOf(spec), l.driver)
	if pod != nil {
		l.data = p.dataOf(spec, pod.UID)
	} else {
		l.data = p.dataOf(spec, "")
	}
	return l, err
}

// checkMode returns an error if the driver's object does not list the volume's mode. An empty
// list, or a missing object, means Persistent.
func checkMode(spec *volume.Spec, o *storagev1.CSIDriverSpec) error {
	mode, modes := storagev1.VolumeLifecyclePersistent, o.VolumeLifecycleModes
	if spec.Persistent == nil {
		mode = storagev1.VolumeLifecycleEphemeral
	}
	if len(modes) == 0 {
		modes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
	if !slices.Contains(modes, mode) {
		return fmt.Errorf("csi: the CSIDriver object of %s does not list the mode %s", driverOf(spec), mode)
	}
	return nil
}

// capability returns the use of a volume. group is the pod's fsGroup, label the SELinux label
// for the mount.
func (l *lookups) capability(spec *volume.Spec, group *int64, label string) Capability {
	c := Capability{Block: spec.Block(), AccessMode: accessMode(spec, l.can)}
	if c.Block {
		return c
	}
	c.FSType, c.MountFlags = fsTypeOf(spec), slices.Clone(spec.MountOptions())
	if label != "" && is(l.object.SELinuxMount) {
		c.MountFlags = append(c.MountFlags, fmt.Sprintf("context=%q", label))
		l.data.SELinuxMountContext = label
	}
	if group != nil && l.can.MountGroup {
		c.MountGroup = strconv.FormatInt(*group, 10)
	}
	return c
}

// setsGroup reports whether the agent sets the pod's fsGroup on the volume's files.
func (l *lookups) setsGroup(spec *volume.Spec) bool {
	if l.can.MountGroup || spec.Block() || readOnly(spec) {
		return false
	}
	policy := storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy
	if l.object.FSGroupPolicy != nil {
		policy = *l.object.FSGroupPolicy
	}
	switch policy {
	case storagev1.NoneFSGroupPolicy:
		return false
	case storagev1.FileFSGroupPolicy:
		return true
	}
	if spec.Persistent == nil {
		return fsTypeOf(spec) != ""
	}
	return fsTypeOf(spec) != "" && slices.ContainsFunc(spec.Persistent.Spec.AccessModes, func(m v1.PersistentVolumeAccessMode) bool {
		return m == v1.ReadWriteOnce || m == v1.ReadWriteOncePod
	})
}

// publishContext returns the attachment's metadata, or nil for a volume that is not attached.
func (p *Plugin) publishContext(ctx context.Context, l *lookups) (map[string]string, error) {
	if p.cfg.Attachments == nil || l.data.VolumeLifecycleMode == ephemeral || !attaches(l.object) {
		return nil, nil
	}
	out, err := p.cfg.Attachments.PublishContext(ctx, l.data.AttachmentID)
	if err != nil {
		err = fmt.Errorf("csi: VolumeAttachment %s: %w", l.data.AttachmentID, err)
	}
	return out, err
}

// secrets returns the data of a secret. A nil ref has none.
func (p *Plugin) secrets(ctx context.Context, ref *v1.SecretReference) (map[string]string, error) {
	if ref == nil || ref.Name == "" {
		return nil, nil
	}
	if p.cfg.Secrets == nil {
		return nil, fmt.Errorf("csi: secret %s/%s: this agent has no secrets", ref.Namespace, ref.Name)
	}
	secret, err := p.cfg.Secrets.Secret(ctx, ref.Namespace, ref.Name)
	if err != nil {
		return nil, fmt.Errorf("csi: secret %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	out := make(map[string]string, len(secret.Data))
	for key, value := range secret.Data {
		out[key] = string(value)
	}
	return out, nil
}

func (p *Plugin) stageRequest(ctx context.Context, s volume.Stage, l *lookups, path string) (r StageRequest, err error) {
	source := s.Spec.Persistent.Spec.CSI
	r = StageRequest{
		VolumeID: source.VolumeHandle, StagingPath: path, Attrs: maps.Clone(source.VolumeAttributes),
		Capability: l.capability(s.Spec, s.FSGroup, s.SELinuxLabel),
	}
	if !l.can.Stage {
		return r, nil
	}
	if r.Secrets, err = p.secrets(ctx, stageSecret(s.Spec)); err != nil {
		return r, err
	}
	r.PublishContext, err = p.publishContext(ctx, l)
	return r, err
}

func stageSecret(spec *volume.Spec) *v1.SecretReference {
	if spec.Persistent == nil {
		return nil
	}
	return spec.Persistent.Spec.CSI.NodeStageSecretRef
}

func expandSecret(spec *volume.Spec) *v1.SecretReference {
	if spec.Persistent == nil {
		return nil
	}
	return spec.Persistent.Spec.CSI.NodeExpandSecretRef
}

func publishSecret(pod *v1.Pod, spec *volume.Spec) *v1.SecretReference {
	if spec.Persistent != nil {
		return spec.Persistent.Spec.CSI.NodePublishSecretRef
	}
	if ref := spec.Inline.CSI.NodePublishSecretRef; ref != nil {
		return &v1.SecretReference{Namespace: pod.Namespace, Name: ref.Name}
	}
	return nil
}

// publishRequest returns the request, and the time at which its tokens must be replaced.
func (p *Plugin) publishRequest(ctx context.Context, m volume.Mount, l *lookups, target string) (r PublishRequest, refreshAt time.Time, err error) {
	r = PublishRequest{
		VolumeID: l.data.VolumeHandle, TargetPath: target, ReadOnly: readOnly(m.Spec),
		Capability: l.capability(m.Spec, m.FSGroup, m.SELinuxLabel),
	}
	if l.can.Stage {
		r.StagingPath = m.Staged
	}
	if m.Spec.Persistent != nil {
		r.Attrs = maps.Clone(m.Spec.Persistent.Spec.CSI.VolumeAttributes)
	} else {
		r.Attrs = maps.Clone(m.Spec.Inline.CSI.VolumeAttributes)
	}
	if r.Secrets, err = p.secrets(ctx, publishSecret(m.Pod, m.Spec)); err != nil {
		return r, refreshAt, err
	}
	if r.PublishContext, err = p.publishContext(ctx, l); err != nil {
		return r, refreshAt, err
	}
	if is(l.object.PodInfoOnMount) {
		add(&r.Attrs, map[string]string{
			keyPodName: m.Pod.Name, keyPodNamespace: m.Pod.Namespace, keyPodUID: string(m.Pod.UID),
			keyServiceAccount: m.Pod.Spec.ServiceAccountName, keyEphemeral: strconv.FormatBool(m.Spec.Persistent == nil),
		})
	}
	tokens, refreshAt, err := p.tokens(ctx, m.Pod, l.object)
	if err == nil && tokens != "" {
		to := &r.Attrs
		if is(l.object.ServiceAccountTokenInSecrets) {
			to = &r.Secrets
		}
		add(to, map[string]string{keyTokens: tokens})
	}
	return r, refreshAt, err
}

func add(to *map[string]string, what map[string]string) {
	if *to == nil {
		*to = map[string]string{}
	}
	maps.Copy(*to, what)
}

type token struct {
	Token               string    `json:"token"`
	ExpirationTimestamp time.Time `json:"expirationTimestamp"`
}

// defaultExpiration is the validity of tokens in seconds if the driver requests none.
const defaultExpiration = 3600

// tokens returns the tokens that the driver requests, as a JSON map by audience. refreshAt is
// zero unless the driver sets requiresRepublish.
func (p *Plugin) tokens(ctx context.Context, pod *v1.Pod, o *storagev1.CSIDriverSpec) (text string, refreshAt time.Time, err error) {
	if len(o.TokenRequests) == 0 {
		return "", refreshAt, nil
	}
	if p.cfg.Tokens == nil {
		return "", refreshAt, errors.New("csi: this agent has no tokens of service accounts")
	}
	out := map[string]token{}
	for _, request := range o.TokenRequests {
		r := objects.TokenRequest{
			Namespace: pod.Namespace, ServiceAccount: objects.Account(pod.Spec.ServiceAccountName), ExpirationSeconds: defaultExpiration,
			PodName: pod.Name, PodUID: pod.UID,
		}
		if request.Audience != "" {
			r.Audiences = []string{request.Audience}
		}
		if request.ExpirationSeconds != nil {
			r.ExpirationSeconds = *request.ExpirationSeconds
		}
		got, err := p.cfg.Tokens.Token(ctx, r)
		if err != nil {
			return "", refreshAt, fmt.Errorf("csi: token for audience %q: %w", request.Audience, err)
		}
		out[request.Audience] = token{got.Value, got.Expires.UTC()}
		if at := got.RefreshAt; !at.IsZero() && (refreshAt.IsZero() || at.Before(refreshAt)) {
			refreshAt = at
		}
	}
	if !is(o.RequiresRepublish) {
		refreshAt = time.Time{}
	}
	encoded, err := json.Marshal(out)
	return string(encoded), refreshAt, err
}
