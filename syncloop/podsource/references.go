package podsource

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkReferences refuses references to API objects of kinds that the agent cannot resolve without
// an API server, because their pod would never start.
func (c *checker) checkReferences(allowed []string) {
	c.references(reflect.ValueOf(&c.pod.Spec), "", field.NewPath("spec"), allowed)
}

// referencedKind returns the kind of the object that a field of a pod's spec refers to, or "".
// Indexes of lists are omitted, and init containers are containers.
func referencedKind(path string) string {
	switch strings.TrimPrefix(path, ".") {
	case "serviceAccountName", "serviceAccount", "volumes[].projected.sources[].serviceAccountToken":
		return "ServiceAccount"
	case "imagePullSecrets[]", "volumes[].secret", "volumes[].csi.nodePublishSecretRef", "volumes[].azureFile",
		"volumes[].projected.sources[].secret", "containers[].envFrom[].secretRef", "containers[].env[].valueFrom.secretKeyRef":
		return "Secret"
	case "volumes[].configMap", "volumes[].projected.sources[].configMap",
		"containers[].envFrom[].configMapRef", "containers[].env[].valueFrom.configMapKeyRef":
		return "ConfigMap"
	case "resourceClaims[]", "containers[].resources.claims[]":
		return "ResourceClaim"
	case "volumes[].persistentVolumeClaim", "volumes[].ephemeral":
		return "PersistentVolumeClaim"
	case "volumes[].csi":
		return "CSIDriver"
	case "volumes[].glusterfs":
		return "Endpoints"
	case "volumes[].projected.sources[].clusterTrustBundle":
		return "ClusterTrustBundle"
	case "volumes[].projected.sources[].podCertificate":
		return "PodCertificateRequest"
	}
	return ""
}

func (c *checker) references(value reflect.Value, path string, at *field.Path, allowed []string) {
	if value.Kind() == reflect.Pointer {
		if value.IsNil() {
			return
		}
		value = value.Elem()
	}
	empty := value.Kind() == reflect.String && value.Len() == 0
	if kind := referencedKind(path); kind != "" && !empty && !slices.Contains(allowed, kind) {
		c.add(field.Forbidden(at, "a static pod must not refer to a "+kind+" of the API server"))
	}
	switch value.Kind() {
	case reflect.Slice:
		for i := range value.Len() {
			c.references(value.Index(i), path+"[]", at.Index(i), allowed)
		}
	case reflect.Struct:
		for i := range value.NumField() {
			switch name := jsonName(value.Type().Field(i)); name {
			case "":
				if value.Type().Field(i).Anonymous {
					c.references(value.Field(i), path, at, allowed)
				}
			case "initContainers":
				c.references(value.Field(i), path+".containers", at.Child(name), allowed)
			default:
				c.references(value.Field(i), path+"."+name, at.Child(name), allowed)
			}
		}
	default:
	}
}

// jsonName returns the name of a field in JSON, "" for an inlined struct.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
