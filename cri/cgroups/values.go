package cgroups

import (
	"fmt"
	"maps"
	"strconv"
	"time"
)

// The kernel's limits.
const (
	minShares = 2
	maxShares = 262144
	// minQuota is the kernel's smallest quota, in microseconds.
	minQuota = 1000
)

// Unlimited is the value of Memory, Quota and Pids that removes a limit.
const Unlimited = -1

// unlimitedHugePages is the value, in bytes, that removes the limit of huge pages.
const unlimitedHugePages = 1 << 62

// defaultPeriod is the default period of CPU quotas.
const defaultPeriod = 100 * time.Millisecond

// Values are the settings of a cgroup. Zero or nil leaves a setting unchanged.
type Values struct {
	// Shares is the relative CPU weight in the unit of cgroup v1: 2 to 262144.
	Shares uint64
	// Quota is the CPU time per Period, in microseconds, or Unlimited.
	Quota int64
	// Period is in microseconds.
	Period uint64
	// Memory is in bytes, or Unlimited.
	Memory int64
	// Pids is the number of processes and threads, or Unlimited.
	Pids int64
	// HugePages maps page sizes in the kernel's format ("2MB", "1GB") to bytes. Zero bytes is a
	// limit.
	HugePages map[string]int64
}

// Shares converts a CPU request in thousandths to shares.
func Shares(milli int64) uint64 { return uint64(min(max(milli*1024/1000, minShares), maxShares)) }

// Quota converts a CPU limit in thousandths to microseconds per period. Zero means no limit.
func Quota(milli int64, period time.Duration) int64 {
	if milli <= 0 {
		return 0
	}
	return max(milli*period.Microseconds()/1000, minQuota)
}

// Weight converts shares to the weight of cgroup v2: 1 to 10000, linearly (KEP-2254).
func Weight(shares uint64) uint64 {
	shares = min(max(shares, minShares), maxShares)
	return 1 + (shares-minShares)*9999/(maxShares-minShares)
}

// Version is the version of the cgroup hierarchy.
type Version int

// The versions.
const (
	V1 Version = 1
	V2 Version = 2
)

// Files returns the contents of a cgroup's files by name. Names of version 1 begin with the
// controller whose hierarchy has the file: "cpu/cpu.shares". In version 2 all files are in one
// folder: "cpu.weight".
func (v Values) Files(version Version) map[string]string {
	if version == V1 {
		return v.filesV1()
	}
	return v.filesV2()
}

func (v Values) filesV1() map[string]string {
	out := map[string]string{}
	if v.Shares > 0 {
		out["cpu/cpu.shares"] = strconv.FormatUint(v.Shares, 10)
	}
	if v.Period > 0 {
		out["cpu/cpu.cfs_period_us"] = strconv.FormatUint(v.Period, 10)
	}
	if v.Quota != 0 {
		out["cpu/cpu.cfs_quota_us"] = strconv.FormatInt(v.Quota, 10)
	}
	if v.Memory != 0 {
		out["memory/memory.limit_in_bytes"] = strconv.FormatInt(v.Memory, 10)
	}
	if v.Pids != 0 {
		out["pids/pids.max"] = orMax(v.Pids)
	}
	for size, n := range v.HugePages {
		out["hugetlb/hugetlb."+size+".limit_in_bytes"] = strconv.FormatInt(n, 10)
	}
	return out
}

func (v Values) filesV2() map[string]string {
	out := map[string]string{}
	if v.Shares > 0 {
		out["cpu.weight"] = strconv.FormatUint(Weight(v.Shares), 10)
	}
	if v.Quota != 0 || v.Period > 0 {
		period := v.Period
		if period == 0 {
			period = uint64(defaultPeriod.Microseconds())
		}
		out["cpu.max"] = fmt.Sprintf("%s %d", orMax(v.Quota), period)
	}
	if v.Memory != 0 {
		out["memory.max"] = orMax(v.Memory)
	}
	if v.Pids != 0 {
		out["pids.max"] = orMax(v.Pids)
	}
	for size, n := range v.HugePages {
		out["hugetlb."+size+".max"] = strconv.FormatInt(n, 10)
	}
	return out
}

// orMax formats a limit as the kernel does; zero or less means no limit.
func orMax(n int64) string {
	if n <= 0 {
		return "max"
	}
	return strconv.FormatInt(n, 10)
}

func (v Values) Equal(other Values) bool {
	return v.Shares == other.Shares && v.Quota == other.Quota && v.Period == other.Period &&
		v.Memory == other.Memory && v.Pids == other.Pids && maps.Equal(v.HugePages, other.HugePages)
}
