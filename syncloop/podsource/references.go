package podsource

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// references collects the places where a pod refers to API objects. Without an
// API server nobody can resolve them, so they are refused here, by name, rather
// than leaving a pod that never starts.
type references struct {
	allowed []string
	errs    field.ErrorList
}

// refuse reports a reference unless its kind is resolved by somebody.
func (r *references) refuse(path *field.Path, kind string) {
	if !slices.Contains(r.allowed, kind) {
		r.errs = append(r.errs, field.Forbidden(path, "a static pod must not refer to a "+kind+" of the API server"))
	}
}

func checkReferences(spec *v1.PodSpec, allowed []string) field.ErrorList {
	r := &references{allowed: allowed}
	root := field.NewPath("spec")
	if spec.ServiceAccountName != "" {
		r.refuse(root.Child("serviceAccountName"), "ServiceAccount")
	}
	if spec.DeprecatedServiceAccount != "" {
		r.refuse(root.Child("serviceAccount"), "ServiceAccount")
	}
	for i := range spec.ImagePullSecrets {
		r.refuse(root.Child("imagePullSecrets").Index(i), "Secret")
	}
	for i := range spec.ResourceClaims {
		r.refuse(root.Child("resourceClaims").Index(i), "ResourceClaim")
	}
	for i := range spec.Volumes {
		r.volume(&spec.Volumes[i].VolumeSource, root.Child("volumes").Index(i))
	}
	for i := range spec.InitContainers {
		r.container(&spec.InitContainers[i], root.Child("initContainers").Index(i))
	}
	for i := range spec.Containers {
		r.container(&spec.Containers[i], root.Child("containers").Index(i))
	}
	return r.errs
}

func (r *references) volume(vol *v1.VolumeSource, path *field.Path) {
	if vol.Secret != nil {
		r.refuse(path.Child("secret"), "Secret")
	}
	if vol.ConfigMap != nil {
		r.refuse(path.Child("configMap"), "ConfigMap")
	}
	if vol.PersistentVolumeClaim != nil {
		r.refuse(path.Child("persistentVolumeClaim"), "PersistentVolumeClaim")
	}
	if vol.Ephemeral != nil {
		r.refuse(path.Child("ephemeral"), "PersistentVolumeClaim")
	}
	if vol.CSI != nil {
		r.refuse(path.Child("csi"), "CSIDriver")
		if vol.CSI.NodePublishSecretRef != nil {
			r.refuse(path.Child("csi", "nodePublishSecretRef"), "Secret")
		}
	}
	if vol.AzureFile != nil {
		r.refuse(path.Child("azureFile"), "Secret")
	}
	if vol.Glusterfs != nil {
		r.refuse(path.Child("glusterfs"), "Endpoints")
	}
	if vol.Projected == nil {
		return
	}
	for i, src := range vol.Projected.Sources {
		r.projection(&src, path.Child("projected", "sources").Index(i))
	}
}

func (r *references) projection(src *v1.VolumeProjection, path *field.Path) {
	if src.Secret != nil {
		r.refuse(path.Child("secret"), "Secret")
	}
	if src.ConfigMap != nil {
		r.refuse(path.Child("configMap"), "ConfigMap")
	}
	if src.ServiceAccountToken != nil {
		r.refuse(path.Child("serviceAccountToken"), "ServiceAccount")
	}
	if src.ClusterTrustBundle != nil {
		r.refuse(path.Child("clusterTrustBundle"), "ClusterTrustBundle")
	}
	if src.PodCertificate != nil {
		r.refuse(path.Child("podCertificate"), "PodCertificateRequest")
	}
}

func (r *references) container(c *v1.Container, path *field.Path) {
	for i, from := range c.EnvFrom {
		if from.SecretRef != nil {
			r.refuse(path.Child("envFrom").Index(i).Child("secretRef"), "Secret")
		}
		if from.ConfigMapRef != nil {
			r.refuse(path.Child("envFrom").Index(i).Child("configMapRef"), "ConfigMap")
		}
	}
	for i, env := range c.Env {
		if env.ValueFrom == nil {
			continue
		}
		at := path.Child("env").Index(i).Child("valueFrom")
		if env.ValueFrom.SecretKeyRef != nil {
			r.refuse(at.Child("secretKeyRef"), "Secret")
		}
		if env.ValueFrom.ConfigMapKeyRef != nil {
			r.refuse(at.Child("configMapKeyRef"), "ConfigMap")
		}
	}
	for i := range c.Resources.Claims {
		r.refuse(path.Child("resources", "claims").Index(i), "ResourceClaim")
	}
}
