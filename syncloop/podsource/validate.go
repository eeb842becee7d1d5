package podsource

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"

	v1 "k8s.io/api/core/v1"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podwright/podwright/internal/podfacts"
)

const maxReported = 5

// validate refuses pods that are harmful to a runtime or unsupported by this node. The list is in
// the package documentation.
func (d Decoder) validate(pod *v1.Pod) error {
	c := &checker{pod: pod}
	c.checkMeta(d)
	c.checkSpec(&pod.Spec)
	c.checkReferences(d.Objects)
	supported := d.Volumes
	if supported == nil {
		supported = []string{"hostPath"}
	}
	c.checkVolumes(supported)
	c.checkContainers()
	return joinErrors(c.errs)
}

// joinErrors puts the first errors on one line. The text does not depend on the order of errs.
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

// maxAnnotations bounds the total bytes of a pod's annotations, keys and values, as in the API
// server. The same limit applies to labels, because a runtime needs minutes to create a sandbox
// with very many.
const maxAnnotations = 256 << 10

func (c *checker) checkMeta(d Decoder) {
	meta, pod := field.NewPath("metadata"), c.pod
	if !c.required(meta.Child("name"), pod.Name) {
		return
	}
	complaints := validation.IsDNS1123Subdomain(pod.Name)
	c.invalid(meta.Child("name"), pod.Name, complaints...)
	if full := d.podName(pod.Name); len(complaints) == 0 {
		for _, complaint := range validation.IsDNS1123Subdomain(full) {
			c.invalid(meta.Child("name"), full, "with the node's name: "+complaint)
		}
	}
	if pod.Namespace != "" {
		c.invalid(meta.Child("namespace"), pod.Namespace, validation.IsDNS1123Label(pod.Namespace)...)
	}
	if pod.UID != "" && !podfacts.IsSafeUID(string(pod.UID)) {
		c.invalid(meta.Child("uid"), pod.UID, "must be at most 128 letters, digits, '-', '_' and '.', with a letter or digit at both ends")
	}
	if pod.DeletionTimestamp != nil {
		c.add(field.Forbidden(meta.Child("deletionTimestamp"), "delete the manifest to delete the pod"))
	}
	c.atLeast(meta.Child("deletionGracePeriodSeconds"), pod.DeletionGracePeriodSeconds, 0)
	c.atLeast(meta.Child("generation"), &pod.Generation, 0)
	if podfacts.IsMirror(pod) {
		c.add(field.Forbidden(meta.Child("annotations").Key(podfacts.ConfigMirror), "a manifest must not define a mirror pod"))
	}
	if node := pod.Spec.NodeName; node != "" && !strings.EqualFold(node, d.NodeName) {
		c.invalid(field.NewPath("spec", "nodeName"), node, fmt.Sprintf("must be empty or the name of this node, %q", d.NodeName))
	}
	c.checkLabels(meta)
}

func (c *checker) checkLabels(meta *field.Path) {
	size := 0
	for key, value := range c.pod.Labels {
		size += len(key) + len(value)
		at := meta.Child("labels").Key(key)
		c.invalid(at, key, validation.IsQualifiedName(key)...)
		c.invalid(at, value, validation.IsValidLabelValue(value)...)
	}
	if size > maxAnnotations {
		c.add(field.TooLong(meta.Child("labels"), "", maxAnnotations))
	}
	size = 0
	for key, value := range c.pod.Annotations {
		size += len(key) + len(value)
		c.invalid(meta.Child("annotations").Key(key), key, validation.IsQualifiedName(strings.ToLower(key))...)
	}
	if size > maxAnnotations {
		c.add(field.TooLong(meta.Child("annotations"), "", maxAnnotations))
	}
}

func (c *checker) checkSpec(spec *v1.PodSpec) {
	root := field.NewPath("spec")
	oneOf(c, root.Child("restartPolicy"), spec.RestartPolicy, v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever)
	oneOf(c, root.Child("dnsPolicy"), spec.DNSPolicy, v1.DNSClusterFirst, v1.DNSClusterFirstWithHostNet, v1.DNSDefault, v1.DNSNone)
	if spec.DNSPolicy == v1.DNSNone && (spec.DNSConfig == nil || len(spec.DNSConfig.Nameservers) == 0) {
		c.add(field.Required(root.Child("dnsConfig", "nameservers"), `with dnsPolicy "None"`))
	}
	c.atLeast(root.Child("activeDeadlineSeconds"), spec.ActiveDeadlineSeconds, 1)
	if limit := spec.ActiveDeadlineSeconds; limit != nil && *limit > math.MaxInt32 {
		c.invalid(root.Child("activeDeadlineSeconds"), *limit, fmt.Sprintf("must be at most %d", math.MaxInt32))
	}
	for name, value := range map[string]string{"hostname": spec.Hostname, "subdomain": spec.Subdomain} {
		if value != "" {
			c.invalid(root.Child(name), value, validation.IsDNS1123Label(value)...)
		}
	}
	c.checkHostAliases(spec.HostAliases, root.Child("hostAliases"))
	c.checkDNSConfig(spec.DNSConfig, root.Child("dnsConfig"))
	if len(spec.EphemeralContainers) > 0 {
		c.add(field.Forbidden(root.Child("ephemeralContainers"), "a static pod cannot have ephemeral containers"))
	}
	if spec.OS != nil {
		oneOf(c, root.Child("os", "name"), spec.OS.Name, v1.Linux)
	}
	if spec.HostPID && spec.ShareProcessNamespace != nil && *spec.ShareProcessNamespace {
		c.invalid(root.Child("shareProcessNamespace"), true, "cannot be combined with hostPID")
	}
	c.checkResources(spec.Resources, root.Child("resources"))
	c.checkPodSecurity(spec.SecurityContext, root.Child("securityContext"))
	c.checkResourceNames(spec.Overhead, root.Child("overhead"))
}

func (c *checker) checkHostAliases(aliases []v1.HostAlias, at *field.Path) {
	for i, alias := range aliases {
		at := at.Index(i)
		c.add(validation.IsValidIP(at.Child("ip"), alias.IP)...)
		for j, name := range alias.Hostnames {
			c.invalid(at.Child("hostnames").Index(j), name, validation.IsDNS1123Subdomain(name)...)
		}
	}
}

// checkDNSConfig refuses values that would change the meaning of a resolv.conf.
func (c *checker) checkDNSConfig(dns *v1.PodDNSConfig, at *field.Path) {
	if dns == nil {
		return
	}
	oneWord := func(at *field.Path, value string) {
		if strings.ContainsFunc(value, unicode.IsSpace) {
			c.invalid(at, value, "must not contain spaces")
		}
	}
	for i, server := range dns.Nameservers {
		c.add(validation.IsValidIP(at.Child("nameservers").Index(i), server)...)
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
}

func (c *checker) checkPodSecurity(sc *v1.PodSecurityContext, at *field.Path) {
	if sc == nil {
		return
	}
	c.checkIDs(sc.RunAsUser, sc.RunAsGroup, at)
	c.checkID(sc.FSGroup, at.Child("fsGroup"))
	for i := range sc.SupplementalGroups {
		c.checkID(&sc.SupplementalGroups[i], at.Child("supplementalGroups").Index(i))
	}
}

func (c *checker) checkIDs(user, group *int64, at *field.Path) {
	c.checkID(user, at.Child("runAsUser"))
	c.checkID(group, at.Child("runAsGroup"))
}

func (c *checker) checkID(id *int64, at *field.Path) {
	if id != nil {
		c.invalid(at, *id, validation.IsValidUserID(*id)...)
	}
}
