package podsource

import (
	"errors"
	"fmt"
	"math"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"

	v1 "k8s.io/api/core/v1"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podwright/podwright/internal/podfacts"
)

// maxReported bounds how many errors one message names.
const maxReported = 5

// validate refuses what a runtime could not survive and what this node cannot
// do. The list is in the package documentation.
func (d Decoder) validate(pod *v1.Pod) error {
	errs := d.checkMeta(pod)
	errs = append(errs, checkSpec(&pod.Spec)...)
	errs = append(errs, checkReferences(&pod.Spec, d.Objects)...)
	supported := d.Volumes
	if supported == nil {
		supported = []string{"hostPath"}
	}
	errs = append(errs, checkVolumes(pod, supported)...)
	errs = append(errs, checkContainers(pod)...)
	return joinErrors(errs)
}

// joinErrors puts the first errors on one line. The same errors always make the
// same text, in whatever order they were found.
func joinErrors[S ~[]E, E error](errs S) error {
	if len(errs) == 0 {
		return nil
	}
	texts := make([]string, 0, len(errs))
	for _, err := range errs {
		texts = append(texts, err.Error())
	}
	slices.Sort(texts)
	if len(texts) > maxReported {
		texts = append(texts[:maxReported], fmt.Sprintf("and %d more", len(texts)-maxReported))
	}
	return cleanError(errors.New(strings.Join(texts, "; ")))
}

// invalid wraps what a string validator complained about.
func invalid(at *field.Path, value string, complaints []string) field.ErrorList {
	var errs field.ErrorList
	for _, c := range complaints {
		errs = append(errs, field.Invalid(at, value, c))
	}
	return errs
}

// oneOf refuses a value that is not listed.
func oneOf[T ~string](at *field.Path, value T, allowed ...T) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, value, allowed)}
}

// maxAnnotations is how many bytes the annotations of a pod may have, keys and values
// together: the API server's limit. Labels have the same one: a runtime takes minutes to
// make a sandbox with very many.
const maxAnnotations = 256 << 10

// safeUID is a UID that is safe as a folder name: directories are named by it.
var safeUID = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$`)

func (d Decoder) checkMeta(pod *v1.Pod) field.ErrorList {
	meta := field.NewPath("metadata")
	if pod.Name == "" {
		return field.ErrorList{field.Required(meta.Child("name"), "")}
	}
	errs := invalid(meta.Child("name"), pod.Name, validation.IsDNS1123Subdomain(pod.Name))
	if full := d.podName(pod.Name); len(errs) == 0 {
		for _, complaint := range validation.IsDNS1123Subdomain(full) {
			errs = append(errs, field.Invalid(meta.Child("name"), full, "with the node's name: "+complaint))
		}
	}
	if pod.Namespace != "" {
		errs = append(errs, invalid(meta.Child("namespace"), pod.Namespace, validation.IsDNS1123Label(pod.Namespace))...)
	}
	if pod.UID != "" && !safeUID.MatchString(string(pod.UID)) {
		errs = append(errs, field.Invalid(meta.Child("uid"), pod.UID, "must be at most 128 letters, digits, '-', '_' and '.', without any of the last three at either end"))
	}
	if pod.DeletionTimestamp != nil {
		errs = append(errs, field.Forbidden(meta.Child("deletionTimestamp"), "delete the manifest to delete the pod"))
	}
	errs = append(errs, atLeast(meta.Child("deletionGracePeriodSeconds"), pod.DeletionGracePeriodSeconds, 0)...)
	errs = append(errs, atLeast(meta.Child("generation"), &pod.Generation, 0)...)
	if podfacts.IsMirror(pod) {
		errs = append(errs, field.Forbidden(meta.Child("annotations").Key(podfacts.ConfigMirror), "a mirror pod cannot be a manifest"))
	}
	if node := pod.Spec.NodeName; node != "" && !strings.EqualFold(node, d.NodeName) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "nodeName"), node, fmt.Sprintf("must be %q, this node, or empty", d.NodeName)))
	}
	return append(errs, checkLabels(pod.Labels, pod.Annotations, meta)...)
}

func checkLabels(labels, annotations map[string]string, meta *field.Path) field.ErrorList {
	var errs field.ErrorList
	size := 0
	for key, value := range labels {
		size += len(key) + len(value)
		at := meta.Child("labels").Key(key)
		errs = append(errs, invalid(at, key, validation.IsQualifiedName(key))...)
		errs = append(errs, invalid(at, value, validation.IsValidLabelValue(value))...)
	}
	if size > maxAnnotations {
		errs = append(errs, field.TooLong(meta.Child("labels"), "", maxAnnotations))
	}
	size = 0
	for key, value := range annotations {
		size += len(key) + len(value)
		errs = append(errs, invalid(meta.Child("annotations").Key(key), key, validation.IsQualifiedName(strings.ToLower(key)))...)
	}
	if size > maxAnnotations {
		errs = append(errs, field.TooLong(meta.Child("annotations"), "", maxAnnotations))
	}
	return errs
}

func checkSpec(spec *v1.PodSpec) field.ErrorList {
	root := field.NewPath("spec")
	errs := oneOf(root.Child("restartPolicy"), spec.RestartPolicy, v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever)
	errs = append(errs, oneOf(root.Child("dnsPolicy"), spec.DNSPolicy, v1.DNSClusterFirst, v1.DNSClusterFirstWithHostNet, v1.DNSDefault, v1.DNSNone)...)
	if spec.DNSPolicy == v1.DNSNone && (spec.DNSConfig == nil || len(spec.DNSConfig.Nameservers) == 0) {
		errs = append(errs, field.Required(root.Child("dnsConfig", "nameservers"), `with dnsPolicy "None"`))
	}
	errs = append(errs, atLeast(root.Child("terminationGracePeriodSeconds"), spec.TerminationGracePeriodSeconds, 0)...)
	errs = append(errs, atLeast(root.Child("activeDeadlineSeconds"), spec.ActiveDeadlineSeconds, 1)...)
	if limit := spec.ActiveDeadlineSeconds; limit != nil && *limit > math.MaxInt32 {
		errs = append(errs, field.Invalid(root.Child("activeDeadlineSeconds"), *limit, fmt.Sprintf("must be at most %d", math.MaxInt32)))
	}
	for name, value := range map[string]string{"hostname": spec.Hostname, "subdomain": spec.Subdomain} {
		if value != "" {
			errs = append(errs, invalid(root.Child(name), value, validation.IsDNS1123Label(value))...)
		}
	}
	errs = append(errs, checkHostAliases(spec.HostAliases, root.Child("hostAliases"))...)
	errs = append(errs, checkDNSConfig(spec.DNSConfig, root.Child("dnsConfig"))...)
	if len(spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(root.Child("ephemeralContainers"), "a static pod cannot have ephemeral containers"))
	}
	if spec.OS != nil {
		errs = append(errs, oneOf(root.Child("os", "name"), spec.OS.Name, v1.Linux)...)
	}
	if spec.HostPID && spec.ShareProcessNamespace != nil && *spec.ShareProcessNamespace {
		errs = append(errs, field.Invalid(root.Child("shareProcessNamespace"), true, "cannot be combined with hostPID"))
	}
	errs = append(errs, checkResources(spec.Resources, root.Child("resources"))...)
	errs = append(errs, checkPodSecurity(spec.SecurityContext, root.Child("securityContext"))...)
	return append(errs, checkResourceNames(spec.Overhead, root.Child("overhead"))...)
}

func checkHostAliases(aliases []v1.HostAlias, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, alias := range aliases {
		at := at.Index(i)
		errs = append(errs, validation.IsValidIP(at.Child("ip"), alias.IP)...)
		for j, name := range alias.Hostnames {
			errs = append(errs, invalid(at.Child("hostnames").Index(j), name, validation.IsDNS1123Subdomain(name))...)
		}
	}
	return errs
}

// checkDNSConfig refuses what would be something else in a resolv.conf.
func checkDNSConfig(dns *v1.PodDNSConfig, at *field.Path) field.ErrorList {
	if dns == nil {
		return nil
	}
	var errs field.ErrorList
	oneWord := func(at *field.Path, value string) {
		if strings.ContainsFunc(value, unicode.IsSpace) {
			errs = append(errs, field.Invalid(at, value, "must not contain spaces"))
		}
	}
	for i, server := range dns.Nameservers {
		errs = append(errs, validation.IsValidIP(at.Child("nameservers").Index(i), server)...)
	}
	for i, domain := range dns.Searches {
		oneWord(at.Child("searches").Index(i), domain)
	}
	for i, option := range dns.Options {
		oneWord(at.Child("options").Index(i).Child("name"), option.Name)
		if option.Value != nil {
			oneWord(at.Child("options").Index(i).Child("value"), *option.Value)
		}
	}
	return errs
}

func checkPodSecurity(sc *v1.PodSecurityContext, at *field.Path) field.ErrorList {
	if sc == nil {
		return nil
	}
	errs := checkIDs(sc.RunAsUser, sc.RunAsGroup, at)
	errs = append(errs, checkID(sc.FSGroup, at.Child("fsGroup"))...)
	for i := range sc.SupplementalGroups {
		errs = append(errs, checkID(&sc.SupplementalGroups[i], at.Child("supplementalGroups").Index(i))...)
	}
	return errs
}

func checkIDs(user, group *int64, at *field.Path) field.ErrorList {
	return append(checkID(user, at.Child("runAsUser")), checkID(group, at.Child("runAsGroup"))...)
}

func checkID(id *int64, at *field.Path) field.ErrorList {
	if id == nil {
		return nil
	}
	var errs field.ErrorList
	for _, complaint := range validation.IsValidUserID(*id) {
		errs = append(errs, field.Invalid(at, *id, complaint))
	}
	return errs
}

func atLeast(at *field.Path, value *int64, least int64) field.ErrorList {
	if value == nil || *value >= least {
		return nil
	}
	return field.ErrorList{field.Invalid(at, *value, fmt.Sprintf("must be at least %d", least))}
}

// checkVolumes checks names, that each volume has one kind which is supported,
// and the paths of hostPath volumes.
func checkVolumes(pod *v1.Pod, supported []string) field.ErrorList {
	var errs field.ErrorList
	names := map[string]bool{}
	for i := range pod.Spec.Volumes {
		vol := &pod.Spec.Volumes[i]
		at := field.NewPath("spec", "volumes").Index(i)
		errs = append(errs, invalid(at.Child("name"), vol.Name, validation.IsDNS1123Label(vol.Name))...)
		if names[vol.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), vol.Name))
		}
		names[vol.Name] = true
		kinds := setFields(&vol.VolumeSource)
		if len(kinds) > 1 {
			errs = append(errs, field.Forbidden(at.Child(kinds[1]), "the volume is a "+kinds[0]+" already"))
		}
		for _, kind := range kinds {
			if !slices.Contains(supported, kind) {
				errs = append(errs, field.Forbidden(at.Child(kind), "volumes of this kind are not supported on this node"))
			}
		}
		errs = append(errs, checkVolumeSource(&vol.VolumeSource, at)...)
		errs = append(errs, checkSources(pod, &vol.VolumeSource, at)...)
	}
	return errs
}

func checkVolumeSource(vol *v1.VolumeSource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if vol.CSI != nil {
		errs = checkCSI(vol.CSI, at.Child("csi"))
	}
	if host := vol.HostPath; host != nil {
		at := at.Child("hostPath")
		switch {
		case host.Path == "":
			errs = append(errs, field.Required(at.Child("path"), ""))
		case !path.IsAbs(host.Path):
			errs = append(errs, field.Invalid(at.Child("path"), host.Path, "must be absolute"))
		case hasDotDot(host.Path):
			errs = append(errs, field.Invalid(at.Child("path"), host.Path, "must not contain '..'"))
		}
		errs = append(errs, oneOf(at.Child("type"), *host.Type, v1.HostPathUnset, v1.HostPathDirectoryOrCreate, v1.HostPathDirectory,
			v1.HostPathFileOrCreate, v1.HostPathFile, v1.HostPathSocket, v1.HostPathCharDev, v1.HostPathBlockDev)...)
	}
	return errs
}

// setFields returns the JSON names of the fields of a source that are set.
func setFields[T any](source *T) []string {
	var kinds []string
	value := reflect.ValueOf(source).Elem()
	for i := range value.NumField() {
		if !value.Field(i).IsNil() {
			name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
			kinds = append(kinds, name)
		}
	}
	return kinds
}

func hasDotDot(p string) bool { return slices.Contains(strings.Split(p, "/"), "..") }
