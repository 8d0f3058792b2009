package sim_test
import ("testing";"github.com/sagalog/sagalog/internal/sim";"github.com/sagalog/sagalog/events")
func TestKinds(t *testing.T){ k:=map[events.Name]int{}; for s:=uint64(2000);s<2100;s++{ r:=sim.Run(s,sim.Options{}); if r.Failed(){t.Log(r.Seed,r.Violation)}; for n,c:=range r.Kinds{k[n]+=c}}; t.Log(k)}
