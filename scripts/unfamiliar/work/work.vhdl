-- SPDX-License-Identifier: MIT
entity work1 is end;
architecture a of work1 is
  signal c : bit := '0';
  signal n : integer := 0;
begin
  c <= not c after 5 ns when now < 400 ns;
  process (c) begin if c'event and c = '1' then n <= n + now / 1 ns mod 7; end if; end process;
  process begin wait for 410 ns; report "n is " & integer'image(n); wait; end process;
end;
