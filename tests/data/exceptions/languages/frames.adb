-- SPDX-License-Identifier: MIT
-- Exceptions of Ada through frames of Ada and C++, and C++'s through frames of Ada. Each line says what happened.
with Ada.Exceptions; use Ada.Exceptions;
with Ada.Finalization;
with Ada.Text_IO;
with Interfaces.C; use Interfaces.C;

procedure Frames is

   First, Second, Third : exception;

   Seen : String (1 .. 400);
   Last : Natural := 0;

   procedure Note (C : Character) is
   begin
      Last := Last + 1;
      Seen (Last) := C;
   end Note;

   procedure Say (Name : String; What : String) is
   begin
      Ada.Text_IO.Put_Line (Name & ": " & What & " " & Seen (1 .. Last));
      Last := 0;
   end Say;

   package Objects is
      type Noted is new Ada.Finalization.Limited_Controlled with record
         N : Natural := 0;
      end record;
      overriding procedure Finalize (X : in out Noted);
   end Objects;

   package body Objects is
      overriding procedure Finalize (X : in out Noted) is
      begin
         Note (Character'Val (97 + X.N mod 26));
      end Finalize;
   end Objects;

   type Function_Pointer is access procedure (N : int) with Convention => C;
   procedure Cxx_Throw (N : int) with Import, Convention => C, External_Name => "cxx_throw";
   function Cxx_Catch (F : Function_Pointer; N : int) return int
     with Import, Convention => C, External_Name => "cxx_catch";
   procedure Cxx_Rethrow (F : Function_Pointer; N : int)
     with Import, Convention => C, External_Name => "cxx_rethrow";
   function Cxx_Destructors return int with Import, Convention => C, External_Name => "cxx_destructors";

   function Down (N : Natural) return Natural;
   pragma No_Inline (Down);

   function Down (N : Natural) return Natural is
      D : Objects.Noted;
   begin
      D.N := N;
      if N = 0 then
         raise First with "at the bottom";
      end if;
      return Down (N - 1) + D.N;
   exception
      when Second | Constraint_Error =>
         return 0;
   end Down;

   --  Each frame catches it and raises it again; one frame raises another.
   procedure Again (N : Natural);
   pragma No_Inline (Again);

   procedure Again (N : Natural) is
      D : Objects.Noted;
   begin
      D.N := N;
      if N = 0 then
         raise First;
      end if;
      Again (N - 1);
   exception
      when First =>
         Note ('!');
         if N = 10 then
            raise Second with "replaced";
         end if;
         raise;
      when E : Second =>
         Note ('?');
         Reraise_Occurrence (E);
   end Again;

   --  An exception is raised and handled while another one is.
   procedure Inside (N : Natural) is
   begin
      raise Third;
   exception
      when Third =>
         begin
            Note (Character'Val (48 + Down (N)));
         exception
            when First =>
               Note ('+');
         end;
         raise;
   end Inside;

   function Divided (A, B : Integer) return Integer;
   pragma No_Inline (Divided);
   function Divided (A, B : Integer) return Integer is (A / B);

   type Pointer is access all Integer;
   Null_Pointer : Pointer := null;
   pragma Volatile (Null_Pointer);

   procedure Trap (N : Natural);
   pragma No_Inline (Trap);

   --  The processor's fault becomes an exception, in a signal's handler.
   procedure Trap (N : Natural) is
      pragma Suppress (Access_Check);
      D : Objects.Noted;
   begin
      D.N := N;
      if N = 0 then
         Null_Pointer.all := 3;
      else
         Trap (N - 1);
      end if;
   end Trap;

   procedure Raises (N : int) with Convention => C;
   procedure Raises (N : int) is
   begin
      Note (Character'Val (48 + Down (Natural (N))));
   end Raises;

   procedure Throws (N : int) with Convention => C;
   procedure Throws (N : int) is
      D : Objects.Noted;
   begin
      D.N := 25;
      Cxx_Throw (N);
   exception
      when First =>
         Note ('x');
   end Throws;

begin
   for I in 1 .. 3 loop
      begin
         Say ("down", Down (20)'Image);
      exception
         when Second =>
            Say ("down", "wrong type");
         when E : First =>
            Say ("down", Exception_Name (E) & " " & Exception_Message (E));
      end;
      begin
         Again (20);
      exception
         when E : others =>
            Say ("again", Exception_Name (E) & " " & Exception_Message (E));
      end;
      begin
         Inside (5);
      exception
         when E : others =>
            Say ("inside", Exception_Name (E));
      end;
      begin
         Say ("divide", Divided (3, I - I)'Image);
      exception
         when Constraint_Error =>
            Say ("divide", "constraint");
      end;
      begin
         Trap (7);
      exception
         when E : others =>
            Say ("trap", Exception_Name (E));
      end;
      Say ("to C++", Cxx_Catch (Raises'Unrestricted_Access, 6)'Image);
      begin
         Cxx_Rethrow (Raises'Unrestricted_Access, 6);
      exception
         when E : First =>
            Say ("through C++", Exception_Name (E) & " " & Exception_Message (E));
      end;
      Say ("of C++ through Ada", Cxx_Catch (Throws'Unrestricted_Access, 6)'Image);
      begin
         Throws (4);
      exception
         when others =>
            Say ("of C++ in Ada", "others");
      end;
      begin
         Cxx_Rethrow (Throws'Unrestricted_Access, 6);
      exception
         when others =>
            Say ("of C++, rethrown", "others");
      end;
   end loop;

   declare
      Kept : Exception_Occurrence;
      task Other;
      task body Other is
         D : Natural;
      begin
         D := Down (4);
         Note (Character'Val (D));
      exception
         when E : others =>
            Save_Occurrence (Kept, E);
      end Other;
   begin
      while not Other'Terminated loop
         delay 0.001;
      end loop;
      Reraise_Occurrence (Kept);
   exception
      when E : First =>
         Say ("task", Exception_Name (E) & " " & Exception_Message (E));
   end;

   --  An abort unwinds what it stops.
   select
      delay 0.5;
      Say ("abort", "done");
   then abort
      declare
         D : Objects.Noted;
      begin
         D.N := 1;
         loop
            delay 0.001;
         end loop;
      end;
   end select;
   Say ("destructors", Cxx_Destructors'Image);
end Frames;
