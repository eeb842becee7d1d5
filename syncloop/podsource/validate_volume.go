package podsource

import (
	"errors"
	"fmt"
	"path"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podwright/podwright/internal/podfacts"
)

// sourceCheck collects what is wrong with what volumes say of where their content comes from.
type sourceCheck struct {
	pod  *v1.Pod
	errs field.ErrorList
}

// checkSources refuses names that are missing or can be those of no object, paths that
// lead out of a volume or are another file's, fields that a pod does not have, and modes
// that are none: nothing of it would ever work.
func checkSources(pod *v1.Pod, vol *v1.VolumeSource, at *field.Path) field.ErrorList {
	c := &sourceCheck{pod: pod}
	if s := vol.ConfigMap; s != nil {
		at := at.Child("configMap")
		c.name(at.Child("name"), s.Name)
		c.mode(at.Child("defaultMode"), s.DefaultMode)
		c.items(at.Child("items"), s.Items)
	}
	if s := vol.Secret; s != nil {
		at := at.Child("secret")
		c.name(at.Child("secretName"), s.SecretName)
		c.mode(at.Child("defaultMode"), s.DefaultMode)
		c.items(at.Child("items"), s.Items)
	}
	if s := vol.DownwardAPI; s != nil {
		at := at.Child("downwardAPI")
		c.mode(at.Child("defaultMode"), s.DefaultMode)
		c.downward(at.Child("items"), s.Items)
	}
	if s := vol.Projected; s != nil {
		at := at.Child("projected")
		c.mode(at.Child("defaultMode"), s.DefaultMode)
		for i := range s.Sources {
			c.projection(at.Child("sources").Index(i), &s.Sources[i])
		}
		for _, clash := range podfacts.Clashes(s.Sources) {
			c.errs = append(c.errs, field.Invalid(at.Child(clash.Field), clash.Path, "must not be that of "+at.Child(clash.First).String()+", too"))
		}
	}
	if s := vol.NFS; s != nil {
		at := at.Child("nfs")
		c.required(at.Child("server"), s.Server)
		c.absolute(at.Child("path"), s.Path)
	}
	if s := vol.EmptyDir; s != nil {
		switch medium := s.Medium; {
		case medium == v1.StorageMediumDefault, medium == v1.StorageMediumMemory, medium == v1.StorageMediumHugePages:
		case !strings.HasPrefix(string(medium), string(v1.StorageMediumHugePagesPrefix)):
			c.errs = append(c.errs, field.NotSupported(at.Child("emptyDir", "medium"), medium,
				[]v1.StorageMedium{v1.StorageMediumDefault, v1.StorageMediumMemory, v1.StorageMediumHugePages, v1.StorageMediumHugePagesPrefix + "SIZE"}))
		}
	}
	if s := vol.Image; s != nil {
		at := at.Child("image")
		c.required(at.Child("reference"), s.Reference)
		c.errs = append(c.errs, oneOf(at.Child("pullPolicy"), s.PullPolicy, v1.PullAlways, v1.PullIfNotPresent, v1.PullNever)...)
	}
	return c.errs
}

func (c *sourceCheck) projection(at *field.Path, s *v1.VolumeProjection) {
	kinds := setFields(s)
	switch {
	case len(kinds) == 0:
		c.errs = append(c.errs, field.Required(at, "one source"))
	case len(kinds) > 1:
		c.errs = append(c.errs, field.Forbidden(at.Child(kinds[1]), "the source is a "+kinds[0]+" already"))
	}
	if s := s.ConfigMap; s != nil {
		c.name(at.Child("configMap", "name"), s.Name)
		c.items(at.Child("configMap", "items"), s.Items)
	}
	if s := s.Secret; s != nil {
		c.name(at.Child("secret", "name"), s.Name)
		c.items(at.Child("secret", "items"), s.Items)
	}
	if s := s.DownwardAPI; s != nil {
		c.downward(at.Child("downwardAPI", "items"), s.Items)
	}
	if s := s.ServiceAccountToken; s != nil {
		at := at.Child("serviceAccountToken")
		c.path(at.Child("path"), s.Path)
		if seconds := s.ExpirationSeconds; seconds != nil && (*seconds < 600 || *seconds > 1<<32) {
			c.errs = append(c.errs, field.Invalid(at.Child("expirationSeconds"), *seconds, "must be from 600 to 4294967296"))
		}
	}
	if s := s.ClusterTrustBundle; s != nil {
		c.bundle(at.Child("clusterTrustBundle"), s)
	}
}

func (c *sourceCheck) bundle(at *field.Path, s *v1.ClusterTrustBundleProjection) {
	c.path(at.Child("path"), s.Path)
	switch {
	case s.Name != nil && s.SignerName != nil:
		c.errs = append(c.errs, field.Forbidden(at.Child("signerName"), "the bundle is named already"))
	case s.Name != nil:
		c.required(at.Child("name"), *s.Name)
	case s.SignerName == nil || *s.SignerName == "":
		c.errs = append(c.errs, field.Required(at.Child("name"), "or signerName"))
	}
}

// downward checks where files go, and that what they shall hold can be had.
func (c *sourceCheck) downward(at *field.Path, items []v1.DownwardAPIVolumeFile) {
	for i := range items {
		at, item := at.Index(i), &items[i]
		c.path(at.Child("path"), item.Path)
		c.mode(at.Child("mode"), item.Mode)
		if (item.FieldRef == nil) == (item.ResourceFieldRef == nil) {
			c.errs = append(c.errs, field.Required(at.Child("fieldRef"), "or resourceFieldRef, and not both"))
			continue
		}
		if ref := item.FieldRef; ref != nil {
			c.fieldPath(at.Child("fieldRef", "fieldPath"), ref.FieldPath)
		} else if _, err := podfacts.ResourceValue(c.pod, nil, item.ResourceFieldRef, nil); err != nil {
			c.errs = append(c.errs, field.Invalid(at.Child("resourceFieldRef"), item.ResourceFieldRef.Resource, err.Error()))
		}
	}
}

// fieldPath takes what is the same for all of a pod's life.
func (c *sourceCheck) fieldPath(at *field.Path, value string) {
	err := errors.New("must be a field of the metadata")
	if strings.HasPrefix(value, "metadata.") {
		_, err = podfacts.FieldValue(c.pod, value, podfacts.Surroundings{})
	}
	if err != nil {
		c.errs = append(c.errs, field.Invalid(at, value, err.Error()))
	}
}

func (c *sourceCheck) items(at *field.Path, items []v1.KeyToPath) {
	for i := range items {
		at := at.Index(i)
		c.errs = append(c.errs, invalid(at.Child("key"), items[i].Key, validation.IsConfigMapKey(items[i].Key))...)
		c.path(at.Child("path"), items[i].Path)
		c.mode(at.Child("mode"), items[i].Mode)
	}
}

// name checks that of an object. One that is missing is not also called invalid.
func (c *sourceCheck) name(at *field.Path, name string) {
	if c.required(at, name) {
		c.errs = append(c.errs, invalid(at, name, validation.IsDNS1123Subdomain(name))...)
	}
}

func (c *sourceCheck) required(at *field.Path, value string) bool {
	if value == "" {
		c.errs = append(c.errs, field.Required(at, ""))
	}
	return value != ""
}

func (c *sourceCheck) absolute(at *field.Path, value string) {
	switch {
	case !c.required(at, value):
	case !path.IsAbs(value):
		c.errs = append(c.errs, field.Invalid(at, value, "must be absolute"))
	}
}

// path checks where a file goes in a volume.
func (c *sourceCheck) path(at *field.Path, value string) {
	switch {
	case !c.required(at, value):
	case path.IsAbs(value):
		c.errs = append(c.errs, field.Invalid(at, value, "must be relative"))
	case hasDotDot(value):
		c.errs = append(c.errs, field.Invalid(at, value, "must not contain '..'"))
	case len(value) > 1 && value[:2] == "..":
		c.errs = append(c.errs, field.Invalid(at, value, "must not begin with '..'"))
	}
}

func (c *sourceCheck) mode(at *field.Path, mode *int32) {
	if mode != nil && (*mode < 0 || *mode > 0o777) {
		c.errs = append(c.errs, field.Invalid(at, *mode, fmt.Sprintf("must be from 0 to 0777, which is %d", 0o777)))
	}
}
