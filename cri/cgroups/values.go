package cgroups

import (
	"fmt"
	"maps"
	"strconv"
	"time"
)

// The bounds of the kernel.
const (
	minShares = 2
	maxShares = 262144
	// minQuota is the smallest quota, in microseconds, that the kernel takes.
	minQuota = 1000
)

// Unlimited is the value of Memory, Quota and Pids that takes a limit away.
const Unlimited = -1

// UnlimitedHugePages is what takes the limit of huge pages away, in bytes.
const UnlimitedHugePages = 1 << 62

// DefaultPeriod is the time to which a quota refers.
const DefaultPeriod = 100 * time.Millisecond

// Values are what a cgroup is given. What is zero or nil is left as it is.
type Values struct {
	// Shares are the relative weight of CPU, in the words of cgroup v1: 2 to 262144.
	Shares uint64
	// Quota is the time on CPUs in each Period, in microseconds; Unlimited for none.
	Quota int64
	// Period is in microseconds.
	Period uint64
	// Memory is in bytes; Unlimited for no limit.
	Memory int64
	// Pids is the number of processes and threads; Unlimited for no limit.
	Pids int64
	// HugePages are bytes of pages by size, the size written as the kernel does: "2MB",
	// "1GB". Zero bytes is a limit.
	HugePages map[string]int64
}

// Shares are the weight of a request of CPU, in thousandths.
func Shares(milli int64) uint64 { return uint64(min(max(milli*1024/1000, minShares), maxShares)) }

// Quota is the limit of CPU, in thousandths, as microseconds in each period. No limit is
// zero.
func Quota(milli int64, period time.Duration) int64 {
	if milli <= 0 {
		return 0
	}
	return max(milli*period.Microseconds()/1000, minQuota)
}

// Weight is what cgroup v2 calls shares: 1 to 10000, linearly (KEP-2254).
func Weight(shares uint64) uint64 {
	shares = min(max(shares, minShares), maxShares)
	return 1 + (shares-minShares)*9999/(maxShares-minShares)
}

// Version is that of the cgroup hierarchy.
type Version int

// The versions.
const (
	V1 Version = 1
	V2 Version = 2
)

// Files are the values as they stand in the files of a cgroup. Of version 1 the name
// begins with the controller, whose hierarchy has the file: "cpu/cpu.shares". Of version
// 2 all are in the same folder: "cpu.weight".
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
			period = uint64(DefaultPeriod.Microseconds())
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

// orMax is a limit as the kernel writes it; zero is none, too.
func orMax(n int64) string {
	if n <= 0 {
		return "max"
	}
	return strconv.FormatInt(n, 10)
}

// Equal tells whether two are the same.
func (v Values) Equal(other Values) bool {
	return v.Shares == other.Shares && v.Quota == other.Quota && v.Period == other.Period &&
		v.Memory == other.Memory && v.Pids == other.Pids && maps.Equal(v.HugePages, other.HugePages)
}
